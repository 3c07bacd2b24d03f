package main

import "testing"

// TestErrorsOfWorkersNameFlags, not the fields of the options that they set.
func TestErrorsOfWorkersNameFlags(t *testing.T) {
	t.Setenv("VAGEN_TEST_KEY", "secret")
	for want, args := range map[string][]string{
		`"--queue": bad option: not embedded, and it must be`:          {"--queue", "http://h:1"},
		`"--name": bad option: "a b", must be 1 to 32`:                 {"--name", "a b"},
		`"--workers": bad option: 0, must be positive`:                 {"--workers", "0"},
		`"--user": bad option: "u", but --key-env, the password`:       {"--user", "u"},
		`"--key-file": bad option: "f", but --key-env is set, too`:     {"--key-file", "f", "--key-env", "VAGEN_TEST_KEY"},
		`"--creds": bad option: "c", but --user or a key (--key-env)`:  {"--creds", "c", "--key-env", "VAGEN_TEST_KEY"},
		`"--tls-cert": bad option: "c" and --tls-key "": both must be`: {"--tls-cert", "c"},
		`"--drain-timeout": bad option: -1s, must not be negative`:     {"--drain-timeout", "-1s"},
		"--key-env: the environment variable NONE is not set":          {"--key-env", "NONE"},
	} {
		refuse(t, want, append([]string{"worker", "--queue", "nats://127.0.0.1:1"}, args...)...)
	}
}
