// Package keyenv reads keys of services from environment variables.
package keyenv

import (
	"fmt"
	"os"
	"strings"
)

// Read returns the key in an environment variable, without the white space around it that files of secrets end in. A
// variable that is not set or empty is an error.
func Read(name string) (string, error) {
	key := strings.TrimSpace(os.Getenv(name))
	if key == "" {
		return "", fmt.Errorf("the environment variable %s is not set or empty", name)
	}
	return key, nil
}
