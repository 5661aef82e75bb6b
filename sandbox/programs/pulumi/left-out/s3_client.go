// In place of the client of S3: all that remains of it is what a copy is asked with.
package s3

type CopyObjectInput struct {
	CopySource *string
}
