// Package unmade has the errors of values that only a function of their package can make, and that a
// program made itself.
package unmade

import (
	"fmt"
	"io/fs"
	"strings"
)

// Error says that a value is the zero value of a type, "package.Type", and names the function of the
// package that makes one.
func Error(typ, maker string) error {
	pkg, name, _ := strings.Cut(typ, ".")
	return fmt.Errorf("%s: %s is a zero value, must be made by %s", pkg, name, maker)
}

// Closed is Error for a value that was closed, or is a zero value: Close leaves one. It wraps fs.ErrClosed.
func Closed(typ, maker string) error {
	pkg, name, _ := strings.Cut(typ, ".")
	return fmt.Errorf("%s: %s: %w, or it is a zero value that %s did not make", pkg, name, fs.ErrClosed, maker)
}
