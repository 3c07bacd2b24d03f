package tokenizer

import "errors"

var (
	// ErrUnsupported reports a setting of a tokenizer or chat template that this
	// package does not implement.
	ErrUnsupported = errors.New("not supported")
	// ErrFormat reports a file that contradicts itself or is malformed.
	ErrFormat = errors.New("malformed")
	// ErrText reports text that cannot be encoded, such as invalid UTF-8.
	ErrText = errors.New("text cannot be encoded")
)
