// In place of states in Google's buckets.
package gcsblob

const Scheme = "gs"
