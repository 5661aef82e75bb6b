// In place of what tests of admission policies are written with, which brings a client that plays an API server.
package generic
