package main

import (
	"flag"
	"fmt"
	"strings"

	"vagen/internal/cli"
	"vagen/internal/keyenv"
	"vagen/internal/regular"
)

// keySource is the place of a key that clients must send: an environment variable or a file.
type keySource struct{ flag, what, env, file string }

// keyFlags adds the flags -env and -file of a key.
func keyFlags(f *flag.FlagSet, name, what string) *keySource {
	k := &keySource{flag: "--" + name, what: what}
	f.StringVar(&k.env, name+"-env", "", "environment `variable` with the "+what)
	f.StringVar(&k.file, name+"-file", "", "`file` with the "+what)
	return k
}

// read returns the key; "" for none.
func (k *keySource) read() (string, error) {
	switch {
	case k.env != "" && k.file != "":
		return "", cli.Usagef("%s-env and %s-file are both set: use one of them", k.flag, k.flag)
	case k.env != "":
		key, err := keyenv.Read(k.env)
		if err != nil {
			return "", cli.Usagef("%s-env: %w", k.flag, err)
		}
		return key, nil
	case k.file != "":
		raw, err := regular.ReadFile(k.file)
		if err != nil {
			return "", fmt.Errorf("the %s: %w", k.what, err)
		}
		key := strings.TrimSpace(string(raw))
		if key == "" {
			return "", cli.Usagef("the %s in %s is empty", k.what, k.file)
		}
		return key, nil
	}
	return "", nil
}
