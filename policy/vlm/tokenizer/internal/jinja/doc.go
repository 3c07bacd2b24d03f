// Package jinja runs the part of the Jinja template language that chat
// templates of language models use, as transformers sets it up: blocks are
// trimmed, undefined names are empty, loop controls are on.
//
// It never approximates, because its results must equal those of the original. An
// unknown statement is an error when parsing; an unknown filter, test, method or
// operation is an error when it is executed. Steps, depth and output are limited, so
// a hostile template cannot hang the program.
//
// Values are nil, bool, int, float64, string, []any and map[string]any. Text is
// indexed by code point, as in Python.
package jinja
