package page

// Asset is a file that pages refer to by a name that has its digest, so that it may be kept for
// ever: a style sheet, a script or an image. It is open to everybody. ok is false for any other
// name.
func Asset(file string) (content []byte, mediaType string, ok bool) {
	return nil, "", false
}
