// Package config has the configuration of a training run: data and its checks, without a
// model, environments or files of a run.
//
// These names are the ones to begin with:
//
//	Load        reads a YAML file and key=value overrides on top of the defaults
//	Source      the same with a preset, or unchecked
//	Default     the default configuration
//	Config      all settings; Validate reports contradictions, Override sets one key
//	Registries  a program's own estimators, filters, harnesses, losses and metrics
//	Presets     the named configurations
//	Settings    the keys with their defaults; Explain describes one
//	Note        a remark on keys without effect
//	Differences lists the keys in which two configurations differ
//	ErrConfig   wrapped by every error about a configuration
//
// A key that has other names in VAGEN or verl is one field here: aliases are resolved when
// a file or an override is read.
package config
