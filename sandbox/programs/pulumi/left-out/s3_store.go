// In place of states in S3: of an s3:// the engine then says that nothing is registered for it.
package s3blob
