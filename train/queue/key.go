package queue

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"vagen/internal/regular"
)

// keyName is the file in Options.Dir with the key of an embedded server that was given none.
const keyName = "key"

// secret returns Key, or what KeyFile has in it now.
func (o *Connection) secret() (string, error) {
	if o.KeyFile == "" {
		return o.Key, nil
	}
	raw, err := regular.ReadFile(o.KeyFile)
	if err != nil {
		return "", fmt.Errorf("queue: %w: KeyFile: %w", ErrOption, err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" {
		return "", fmt.Errorf(
			"queue: %w: KeyFile: %s is empty, must have the token or the password", ErrOption, o.KeyFile,
		)
	}
	return key, nil
}

// hasKey reports whether there is a token or a password.
func (o *Connection) hasKey() bool { return o.Key != "" || o.KeyFile != "" }

// login returns the option that logs in with user and key. A file is read whenever the client connects: the
// server may have been started again with another key.
func (o *Connection) login() nats.Option {
	key := func() string {
		key, err := o.secret()
		if err != nil { // the server refuses an empty key
			o.log().Warn("queue: the key cannot be read", "err", err)
		}
		return key
	}
	if o.User == "" {
		return nats.TokenHandler(key)
	}
	return nats.UserInfoHandler(func() (string, string) { return o.User, key() })
}

// makeKey writes a random key to a file that only this user can read: with an embedded server that has no key
// every user of the machine could connect.
func makeKey(dir string) (file string, err error) {
	f, err := os.CreateTemp(dir, keyName+"-*") // with mode 0600
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, keyName)
	_, err = f.WriteString(rand.Text() + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return file, nil
}

// KeyFile returns the file with the key of an embedded server that was given none, for WorkerOptions.KeyFile;
// "" if there is none. The file exists until Close.
func (q *Queue) KeyFile() string {
	if q.server == nil {
		return ""
	}
	return q.server.key
}

// removeKey removes the file of a key.
func removeKey(file string) error {
	if file == "" {
		return nil
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("queue: the key of the embedded server: %w", err)
	}
	return nil
}
