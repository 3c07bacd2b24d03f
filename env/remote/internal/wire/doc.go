// Package wire holds what messages of both remote protocols are made of:
// multipart bodies of one JSON object and images, and images as bytes.
package wire

import "errors"

// Errors of what came over the wire.
var (
	ErrFormat = errors.New("malformed message")
	ErrLimit  = errors.New("message exceeds a limit")
)
