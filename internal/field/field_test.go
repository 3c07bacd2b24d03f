package field_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/field"
)

func TestErrorsCarryTheKeysThatTheyName(t *testing.T) {
	err := field.Errorf("{run.workers} is %d, but {run.waves} is %s", 3, "{2}")
	require.EqualError(t, err, "run.workers is 3, but run.waves is {2}")
	require.Equal(t, []string{"run.workers", "run.waves"}, field.Keys(err))
	cause := errors.New("no such name")
	outer := fmt.Errorf("line 3: %w: %w", field.Errorf("{%s}: %w", "filter.name", cause), err)
	require.Equal(t, []string{"filter.name", "run.workers", "run.waves"}, field.Keys(outer))
	require.ErrorIs(t, outer, cause)
	require.Empty(t, field.Keys(cause))
}

func TestChecksReportEveryFieldInTheOrderFound(t *testing.T) {
	var c field.Checks
	require.NoError(t, c.Err())
	c.OneOf("a.mode", "txt", "text", "vision")
	c.OneOf("a.mode", "text", "text", "vision")
	c.Within("a.size", 1, 2, 64)
	c.Within("a.size", 64, 2, 64)
	c.Within("a.share", math.NaN(), 0.5, 1)
	c.Positive("a.steps", 0)
	c.Positive("a.steps", 1)
	c.Positive("a.steps", field.Most+1)
	c.Count("a.limit", -1)
	c.Count("a.limit", 0)
	require.EqualError(t, c.Err(), `a.mode is "txt", must be one of ["text" "vision"], did you mean "text"?
a.size is 1, must be in [2, 64]
a.share is NaN, must be in [0.5, 1]
a.steps is 0, must be positive
a.steps is 1073741825, must be at most 1073741824
a.limit is -1, must not be negative`)
	require.Equal(t, []string{"a.mode", "a.size", "a.share", "a.steps", "a.steps", "a.limit"}, field.Keys(c.Err()))
}

func TestChecksOfOptionsNameTheirOwnerAndWrapItsError(t *testing.T) {
	kind := errors.New("bad option")
	c := field.Options("pond", kind)
	c.Positive("size", 0)
	require.EqualError(t, c.Err(), `pond: option "size": bad option: 0, must be positive`)
	require.ErrorIs(t, c.Err(), kind)
	require.Equal(t, []string{"size"}, field.Keys(c.Err()))
}

// TestNamesOfKeysCanBeExchanged, so that a command names its flags; an error that wraps others keeps its text.
func TestNamesOfKeysCanBeExchanged(t *testing.T) {
	kind, names := errors.New("bad option"), map[string]string{"Cert": "--cert", "Key": "--key"}
	c := field.Options("pond", kind)
	c.Bad("Cert", "%q, but {Key} is %q and {Size} 3", "{Key}", "Cert")
	c.Positive("Size", 0)
	c.Add("Key", errors.New("Key is lost"))
	err := field.Renamed(c.Err(), names)
	require.EqualError(t, err, `pond: option "--cert": bad option: "{Key}", but --key is "Cert" and Size 3
pond: option "Size": bad option: 0, must be positive
Key is lost`)
	require.Equal(t, []string{"--cert", "--key", "Size", "Size", "Key"}, field.Keys(err))
	require.ErrorIs(t, err, kind)
	for _, err := range []error{nil, kind, fmt.Errorf("%w: %w", kind, c.Err())} {
		require.Equal(t, err, field.Renamed(err, names))
	}
}

func TestSetConvertsOnlyWhatTheRulesAllow(t *testing.T) {
	yaml := field.Rules{NumberText: true, Single: true}
	options := field.Rules{KeepNull: true}
	for _, c := range []struct {
		rules       field.Rules
		value, want any
		ok          bool
	}{
		{options, 3.0, 3, true},
		{options, 3.5, 0, false},
		{options, json.Number("7"), 7, true},
		{options, json.Number("7e0"), 7, true},
		{options, json.Number("7"), "", false},
		{options, uint64(math.MaxUint64), 0, false},
		{options, 300, int8(0), false},
		{yaml, uint64(math.MaxUint64), uint64(math.MaxUint64), true},
		{yaml, -1, uint64(0), false},
		{yaml, "1_000", 1000, true},
		{options, "1_000", 0, false},
		{yaml, "1e-6", 1e-6, true},
		{options, "1e-6", 0.0, false},
		{yaml, 2, 2.0, true},
		{yaml, math.Inf(1), 0.0, false},
		{yaml, 5, []int{5}, true},
		{options, 5, []int(nil), false},
		{options, []any{1, 2.0}, []int{1, 2}, true},
		{options, []any{1, 2, 3}, [2]int{}, false},
	} {
		dst := reflect.New(reflect.TypeOf(c.want)).Elem()
		err := c.rules.Set(dst, c.value)
		require.Equal(t, c.ok, err == nil, "%v", c.value)
		require.Equal(t, c.want, dst.Interface(), "%v", c.value)
	}
}

func TestNullClearsWhatCanBeUnset(t *testing.T) {
	n, m := 3, 4
	p := &m
	require.Nil(t, field.Rules{}.Set(reflect.ValueOf(&p).Elem(), nil))
	require.Nil(t, p)
	require.EqualError(t, field.Rules{}.Set(reflect.ValueOf(&n).Elem(), nil), "null, must be a whole number")
	require.Nil(t, field.Rules{KeepNull: true}.Set(reflect.ValueOf(&n).Elem(), nil))
	require.Equal(t, 3, n)
}

func TestAMismatchSaysWhichEntry(t *testing.T) {
	var rows [][]string
	err := field.Rules{}.Set(reflect.ValueOf(&rows).Elem(), []any{[]any{"a"}, []any{"b", 3}})
	require.Equal(t, "[1][1]", err.At)
	require.EqualError(t, err, "3 (int), must be a text")
}

func TestTagsRefuseValues(t *testing.T) {
	type inner struct {
		Wait time.Duration `least:"1"`
	}
	type all struct {
		inner
		Share *float64 `option:"share" range:">0,1"`
		Level int      `option:"level" range:"0,9" must:"be from 0 to 9"`
		Pay   float64  `option:"pay"`
		Gain  float64  `option:"gain" least:"0.5"`
		Steps int      `option:"steps" count:"0"`
		Size  int      `option:"size" count:"positive,64"`
		Kind  string   `option:"kind" oneof:"text vision"`
		Kinds []string `option:"kinds" oneof:"text vision"`
		Key   string   `option:"key" holds:"variable"`
	}
	zero := 0.0
	bad := &all{Share: &zero, Level: 10, Pay: math.Inf(1), Gain: math.NaN(), Steps: -1, Size: 65, Kind: "txt",
		Kinds: []string{"text", ""}, Key: "1SECRET"}
	c := field.Options("pond", nil)
	c.Struct(&all{Gain: 1, Size: 1, Kind: "text"}, "option")
	c.Struct(&all{Gain: 1, Size: 1, Kind: "text", Key: "_KEY_1"}, "option")
	require.NoError(t, c.Err())
	c.Struct(bad, "option")
	c.Struct(&bad.inner, "")
	require.EqualError(t, c.Err(), `pond: share: 0, must be in [>0, 1]
pond: level: 10, must be from 0 to 9
pond: pay: +Inf, must be finite
pond: gain: NaN, must be finite
pond: steps: -1, must not be negative
pond: size: 65, must be at most 64
pond: kind: "txt", must be one of ["text" "vision"], did you mean "text"?
pond: kinds: "", must be one of ["text" "vision"]
pond: key: not the name of an environment variable in capitals; it is not shown because it may be a key
pond: Wait: 0s, must be at least 1ns`)
}
