package env_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/golden"
)

type common struct {
	Reward float64 `option:"format_reward"`
}

type settings struct {
	common
	Size   int            `option:"size"`
	Name   string         `option:"name"`
	On     bool           `option:"on"`
	Limit  *int           `option:"limit"`
	Rows   []string       `option:"rows"`
	Room   [2]int         `option:"room"`
	Extra  map[string]any `option:"extra"`
	hidden int
}

func TestDecodeFillsWhatIsGivenAndKeepsTheRest(t *testing.T) {
	limit := 3
	s := settings{Size: 4, Name: "lake", Limit: &limit}
	require.NoError(t, env.Decode(map[string]any{
		"size": 6.0, "on": true, "limit": nil, "rows": []any{"SF", "FG"}, "room": []any{json.Number("7"), 8},
		"format_reward": 1, "extra": map[string]any{"a": 1},
	}, &s))
	require.Equal(t, settings{common: common{Reward: 1}, Size: 6, Name: "lake", On: true, Rows: []string{"SF", "FG"},
		Room: [2]int{7, 8}, Extra: map[string]any{"a": 1}}, s)
	require.NoError(t, env.Decode(map[string]any{"limit": 9}, &s))
	require.Equal(t, 9, *s.Limit)
	require.NoError(t, env.Decode(nil, &s))
}

func TestDecodeNamesEveryFault(t *testing.T) {
	type fault struct {
		Config map[string]any
		Want   []string
	}
	faults := golden.Table[map[string]fault](t, "faults.yaml")
	faults["number is bad"] = fault{map[string]any{"size": json.Number("1e")}, []string{`"size"`, "1e"}}
	faults["infinite"] = fault{map[string]any{"format_reward": math.Inf(1)}, []string{`"format_reward"`, "finite"}}
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			var s settings
			err := env.Decode(c.Config, &s)
			require.ErrorIs(t, err, env.ErrOption)
			for _, want := range c.Want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	require.Error(t, env.Decode(nil, settings{}))
	require.Error(t, env.Decode(nil, (*settings)(nil)))
}

func TestOptionNamesListsTags(t *testing.T) {
	require.Equal(t, []string{"extra", "format_reward", "limit", "name", "on", "room", "rows", "size"},
		env.OptionNames(&settings{hidden: 1}))
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"size":4,"rows":["a"],"room":[1,2]}`)
	f.Add(`{"size":[[]],"extra":{"a":null},"limit":-1e99}`)
	f.Fuzz(func(t *testing.T, text string) {
		var config map[string]any
		if json.Unmarshal([]byte(text), &config) != nil {
			return
		}
		var s settings
		if err := env.Decode(config, &s); err != nil && s.hidden != 0 {
			t.Error("a field without tag was written")
		}
	})
}

func TestOptionValuesAreWhatDecodeWrites(t *testing.T) {
	type shared struct {
		Mode string `option:"mode"`
	}
	type options struct {
		shared
		Size   int      `option:"size"`
		Weight *float64 `option:"weight"`
		Limit  *int     `option:"limit"`
		inner  int
	}
	o := options{inner: 1}
	require.NoError(t, env.Decode(map[string]any{"mode": "text", "size": 3, "weight": 0.5}, &o))
	want := map[string]any{"mode": "text", "size": 3, "weight": 0.5, "limit": nil}
	require.Equal(t, want, env.OptionValues(&o))
	require.Equal(t, want, env.OptionValues(o))
	require.Empty(t, env.OptionValues(3))
}
