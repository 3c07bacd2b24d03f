package settings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/field"
	"vagen/internal/settings"
)

func TestTagsRefuseValues(t *testing.T) {
	type inner struct {
		Share *float64 `yaml:"share" range:">0,1"`
		Level int      `yaml:"level" range:"0,9" must:"be from 0 to 9"`
	}
	type all struct {
		inner
		Below inner    `yaml:"below"`
		Steps int      `yaml:"steps" null:"-1" count:"0"`
		Size  int      `yaml:"size" count:"positive,64"`
		Kind  string   `yaml:"kind" oneof:"text vision"`
		Kinds []string `yaml:"kinds" oneof:"text vision"`
	}
	zero, one := 0.0, 1.0
	good := all{inner: inner{Share: &one}, Steps: -1, Size: 64, Kind: "text", Kinds: []string{"vision", "text"}}
	var c field.Checks
	settings.Check(&c, &good)
	require.NoError(t, c.Err())
	settings.Check(&c, &all{Below: inner{&zero, 10}, Steps: -2, Size: 65, Kind: "txt", Kinds: []string{"text", ""}})
	settings.Check(&c, &all{Kind: "text"})
	require.EqualError(t, c.Err(), `below.share is 0, must be in [>0, 1]
below.level is 10, must be from 0 to 9
steps is -2, must not be negative
size is 65, must be at most 64
kind is "txt", must be one of ["text" "vision"], did you mean "text"?
kinds is "", must be one of ["text" "vision"]
size is 0, must be positive`)
}

func TestSettingsAreIdleByTheFirstTrueSentence(t *testing.T) {
	type engine struct {
		Addresses []string `yaml:"addresses" idle:""`
		Timeout   float64  `yaml:"timeout"`
		Key       string   `yaml:"key" noted:"queue is null; mode is off, so that nothing reads it"`
	}
	c := struct {
		Queue  string `yaml:"queue" null:""`
		Mode   string `yaml:"mode"`
		Engine engine `yaml:"engine" idle:"engine.addresses is empty"`
	}{Mode: "off"}
	require.Equal(t, []settings.Unused{
		{Path: "engine.timeout", By: "engine.addresses", Why: "is empty"},
		{Path: "engine.key", By: "engine.addresses", Why: "is empty"},
		{Path: "engine.key", By: "queue", Why: "is null", Noted: true},
	}, settings.Idle(&c))
	c.Queue, c.Engine.Addresses = "nats://h:1", []string{"http://h:1"}
	require.Equal(t, []settings.Unused{
		{Path: "engine.key", By: "mode", Why: "is off, so that nothing reads it", Noted: true},
	}, settings.Idle(&c))
}
