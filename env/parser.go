package env

import "vagen/reward"

// Unwrap removes wrappers with a method Unwrap, such as Judged.
func Unwrap(e Env) Env {
	for {
		w, ok := e.(interface{ Unwrap() Env })
		if !ok {
			return e
		}
		e = w.Unwrap()
	}
}

// ParserOf returns the parser with which an environment reads responses: the result of its
// method Parser, or of that of the environment in its wrappers; nil if there is none.
func ParserOf(e Env) *reward.Parser {
	if p, ok := Unwrap(e).(interface{ Parser() *reward.Parser }); ok {
		return p.Parser()
	}
	return nil
}
