// Package jinja implements the part of the Jinja template language that chat templates
// of language models use, with the settings of transformers: trim_blocks and
// lstrip_blocks are on, undefined names are empty, loops have break and continue.
//
// Output equals that of jinja2, or there is an error: for an unknown statement when
// parsing, for an unknown filter, test, method or operation when it is executed. Steps,
// nesting, memory and output are limited, so that a hostile template cannot hang the
// program.
//
// Values are nil, bool, int, float64, string, []any, [Dict] and map[string]any, whose keys are
// sorted. A json.RawMessage is the value that it encodes. Strings are indexed by code point, as
// in Python. There is no clock: the variable strftime_now is the fixed time, as text, of the
// function with this name.
package jinja
