package config

import (
	"errors"
	"fmt"
	"strings"

	"vagen/internal/redact"
	"vagen/internal/settings"
	"vagen/train/config/internal/vagen"
)

// errNil is of a configuration that is to be checked or written.
var errNil = fmt.Errorf("config: %w: it is nil", ErrConfig)

// Redacted returns the configuration with secrets replaced by REDACTED: tokens, keys
// and passwords, also those in URLs. This form is written to files and sent to services.
func (c *Config) Redacted() (Config, error) {
	if c == nil {
		return Config{}, errNil
	}
	out := *c
	for _, k := range settings.Keys(c) {
		safe := safeValue(k)
		if ValueText(safe) == ValueText(k.Value) {
			continue
		}
		if err := settings.Set(&out, k.Path, safe); err != nil {
			return out, fmt.Errorf("config: %w", err)
		}
	}
	return out, nil
}

// Stored returns the YAML of the redacted configuration, as it is written to files.
func (c *Config) Stored() ([]byte, error) {
	safe, err := c.Redacted()
	if err != nil {
		return nil, err
	}
	return safe.YAML()
}

// ReadStored reads what Stored wrote, now or in an earlier version: keys that are aliases now set what they
// name, and those that it lacks have their defaults. removed lists the keys that do not exist any more, as
// "key: value → no such key" without secrets; they have no effect. name stands before the lines of errors.
func ReadStored(name string, raw []byte) (c Config, removed []string, err error) {
	c = Default()
	l := settings.NewLoader(&c, vagen.Keys())
	l.Unknown = func(key string, value any) {
		value = redact.Value(key[strings.LastIndexByte(key, '.')+1:], value)
		removed = append(removed, fmt.Sprintf("%s: %s → no such key", key, ValueText(value)))
	}
	l.YAML(name, raw)
	if _, _, problems := l.Finish(); len(problems) > 0 {
		return c, removed, fmt.Errorf("config: %w: %w", ErrConfig, errors.Join(problems...))
	}
	return c, removed, nil
}

// CheckSecrets returns an ErrConfig that names every secret that was redacted in the
// file that the configuration was read from, and has to be set again.
func (c *Config) CheckSecrets() error {
	if c == nil {
		return errNil
	}
	var bad []error
	for _, k := range settings.Keys(c) {
		for _, at := range redact.Marked(k.Path, k.Value) {
			bad = append(bad, fmt.Errorf("%s: a secret in it is %s, because files of a run contain no secrets; set it again with %s=…", at, redact.Mark, at))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("config: %w: %w", ErrConfig, errors.Join(bad...))
}
