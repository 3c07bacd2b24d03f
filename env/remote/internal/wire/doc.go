// Package wire encodes and decodes the messages of both remote protocols: multipart
// bodies of one JSON object and images, and the images themselves.
package wire

import "errors"

// Errors about received messages.
var (
	ErrFormat = errors.New("malformed message")
	ErrLimit  = errors.New("message exceeds a limit")
)
