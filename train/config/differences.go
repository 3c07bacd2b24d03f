package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"vagen/internal/redact"
	"vagen/internal/settings"
)

// divided reports whether work is divided into eight parts on any machine.
func (c *Config) divided() bool {
	return (c.Model.SameBytes || c.Model.Devices > 1 || c.Model.Nodes > 1) && !c.Model.PerDevice
}

// Differences lists the keys in which two configurations differ, as lines
// "key: old → new" in the order of the keys. Secrets are neither compared nor shown.
func Differences(old, new *Config) []string {
	var lines []string
	old, new = cmp.Or(old, &Config{}), cmp.Or(new, &Config{})
	divided := old.divided() && new.divided()
	before, after := SafeKeys(old), SafeKeys(new)
	for i, k := range before {
		was, is := ValueText(k.Value), ValueText(after[i].Value)
		// maps, which files have as {}
		if empty := []string{"null", "{}"}; slices.Contains(empty, was) && slices.Contains(empty, is) {
			continue
		}
		if was != is && k.Resume != "free" && !(divided && k.Resume == "devices") {
			lines = append(lines, fmt.Sprintf("%s: %s → %s", k.Path, was, is))
		}
	}
	return lines
}

// SafeKeys lists the settings of a configuration with secrets redacted.
func SafeKeys(c *Config) []settings.Key {
	keys := settings.Keys(cmp.Or(c, new(Config)))
	for i := range keys {
		keys[i].Value = safeValue(keys[i])
	}
	return keys
}

// safeValue returns a setting's value with secrets redacted.
func safeValue(k settings.Key) any {
	return redact.Value(k.Path[strings.LastIndexByte(k.Path, '.')+1:], k.Value)
}

// ValueText returns a setting's value on one line.
func ValueText(value any) string {
	raw, err := json.Marshal(value)
	if err != nil { // no JSON form
		return fmt.Sprint(value)
	}
	return string(raw)
}
