// In place of what tests of the scheduler's queue are written with, which brings a client that plays an API server.
package queue
