package settings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/field"
	"vagen/internal/settings"
)

// TestTagsRefuseValues under the whole keys, and not those that stand for null.
func TestTagsRefuseValues(t *testing.T) {
	type inner struct {
		Level int `yaml:"level" range:"0,9"`
	}
	type all struct {
		inner
		Below inner `yaml:"below"`
		Steps int   `yaml:"steps" null:"-1" count:"0"`
	}
	var c field.Checks
	settings.Check(&c, &all{Steps: -1})
	require.NoError(t, c.Err())
	settings.Check(&c, &all{Below: inner{10}, Steps: -2})
	require.EqualError(t, c.Err(), "below.level is 10, must be in [0, 9]\nsteps is -2, must not be negative")
}

// TestSentencesOfIdleSettings name one of the same group, values with a bar between them, or all but some.
func TestSentencesOfIdleSettings(t *testing.T) {
	type optim struct {
		Style string  `yaml:"style"`
		Least float64 `yaml:"least" idle:".style is constant"`
		Power int     `yaml:"power" idle:".style is not cosine|linear, only these read it"`
	}
	c := struct {
		Actor optim   `yaml:"actor"`
		Queue string  `yaml:"queue"`
		Rate  float64 `yaml:"rate" noted:"queue is not null, which has its own; actor.style is linear|cosine"`
	}{Actor: optim{Style: "constant"}}
	require.Equal(t, []settings.Unused{
		{Path: "actor.least", By: "actor.style", Why: "is constant"},
		{Path: "actor.power", By: "actor.style", Why: "is constant, only these read it"},
	}, settings.Idle(&c))
	c.Actor.Style = "cosine"
	require.Equal(t, []settings.Unused{{Path: "rate", By: "actor.style", Why: "is cosine", Noted: true}}, settings.Idle(&c))
	c.Queue = "nats://user:secret@h:1"
	require.Equal(t, []settings.Unused{
		{Path: "rate", By: "queue", Why: "is set, which has its own", Noted: true},
	}, settings.Idle(&c))
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
