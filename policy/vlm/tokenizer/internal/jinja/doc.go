// Package jinja runs the part of the Jinja template language that chat
// templates of language models use, as transformers sets it up: blocks are
// trimmed, undefined names are empty, loop controls are on.
//
// It exists to find out what a template does, so it never approximates. A
// statement it doesn't know fails when parsing; a filter, test, method or
// operation it doesn't know fails when it is reached. Running is bounded in
// steps, depth and output, so a hostile template cannot hang the program.
//
// Values are nil, bool, int, float64, string, []any and map[string]any. Text is
// indexed by code point, as in Python.
package jinja
