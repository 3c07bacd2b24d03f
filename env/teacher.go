package env

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// ErrScript means that an environment has no script of a name.
var ErrScript = errors.New("unknown script")

// Teacher is implemented by environments with scripted players, from whose responses a
// policy can learn the format and the rules before it learns by playing.
type Teacher interface {
	// Scripts returns the names of the scripts.
	Scripts() []string
	// Teach returns the response of a script for the current turn, in the environment's
	// format and with its statements about the state. Each move is random instead with the
	// probability noise, in [0, 1]. r is the only source of randomness. The environment
	// does not change. An error about the name wraps ErrScript.
	Teach(script string, noise float64, r *rand.Rand) (string, error)
}

var _ Teacher = Judged{}

// Scripts implements Teacher: the scripts of the environment, none if it is no Teacher.
func (j Judged) Scripts() []string {
	if t, ok := j.Env.(Teacher); ok {
		return t.Scripts()
	}
	return nil
}

// Teach implements Teacher, if the environment does.
func (j Judged) Teach(script string, noise float64, r *rand.Rand) (string, error) {
	return Script(j.Env, script, noise, r)
}

// Script returns the response of a script, as Teacher.Teach does. For an environment that is no Teacher the error
// wraps ErrScript.
func Script(e Env, name string, noise float64, r *rand.Rand) (string, error) {
	if t, ok := e.(Teacher); ok {
		return t.Teach(name, noise, r)
	}
	return "", fmt.Errorf("env: teacher: %w: %q, the environment has no scripts", ErrScript, name)
}
