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
