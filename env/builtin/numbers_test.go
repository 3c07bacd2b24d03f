package builtin

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/navigation"
	"vagen/env/primitiveskill"
	"vagen/env/sokoban"
	"vagen/env/svg"
	"vagen/internal/testkit"
	"vagen/rollout/gateway"
)

// TestNumbersOfOptionsAreFinite, also of those that a program sets: a reward that is not would end every episode.
func TestNumbersOfOptionsAreFinite(t *testing.T) {
	jack, agent, drawing := blackjack.DefaultOptions(), gateway.DefaultOptions(), svg.DefaultOptions()
	all := []interface{ Validate() error }{&jack, &agent, &drawing}
	for _, rules := range []env.Rules{env.Lite, env.Next} {
		lake, box, house, arm := frozenlake.DefaultOptions(rules), sokoban.DefaultOptions(rules),
			navigation.DefaultOptions(rules), primitiveskill.DefaultOptions(rules)
		all = append(all, &lake, &box, &house, &arm)
	}
	numbers := 0
	for _, o := range all {
		v := reflect.ValueOf(o).Elem()
		require.NoError(t, o.Validate(), v.Type())
		for _, f := range reflect.VisibleFields(v.Type()) {
			x := v.FieldByIndex(f.Index)
			if !x.CanFloat() {
				continue
			}
			numbers++
			was := x.Float()
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				x.SetFloat(bad)
				err := o.Validate()
				testkit.Error(t, err, env.ErrOption, f.Tag.Get("option"))
			}
			x.SetFloat(was)
		}
	}
	require.Greater(t, numbers, 40)
}
