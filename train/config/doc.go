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
// A key has one name and one meaning in a Config. Everything that reads a file or an override also
// reads those of VAGEN's three generations: their other names, defaults and names of estimators are
// resolved while they are read, with the tables of internal/vagen, and nothing that trains depends on a
// generation. Config.System records which one a configuration was read as, for overrides. The tables are below
// this package so that no program loses these files by calling Load, and files of older releases, whose
// names may be aliases now, have the same reader.
package config
