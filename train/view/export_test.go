package view

import "vagen/policy/vlm/tokenizer"

// SetReadTokenizer replaces the function that reads tokenizers until restore is called.
func SetReadTokenizer(f func(dir string) (*tokenizer.Tokenizer, error)) (restore func()) {
	was := readTokenizer
	readTokenizer = f
	return func() { readTokenizer = was }
}
