package store

// Len is how many records there are. It reads no record, and costs little.
func (c Collection[T]) Len() int { return c.bucket.Stats().KeyN }
