package builtin

import (
	"context"
	"fmt"
	"hash/fnv"
	"image"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/internal/golden"
)

// optionTable is values of options that differ from the defaults, those of one environment, and settings with which
// some options have an effect.
type optionTable struct {
	Other, Own map[string]any
	Contexts   []map[string]any
}

// Responses that are not in the list of env.Check.
var richer = []string{
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>push(-100,0,20,100,0,20)</answer>",
	`<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>mine~~<svg viewBox="0 0 9 9"><path d="M1 1h5v5z"/></svg></answer>`,
	`<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer><svg viewBox="0 0 9 9"><path d="M1 1h5v5z"/></svg></answer>`,
}

// Every option of every environment changes observations or rewards, or is refused by
// name, or its tag says why it is accepted without effect.
func TestEveryOptionIsHonouredRefusedOrNoted(t *testing.T) {
	values := golden.Table[optionTable](t, "options.yaml")
	for _, k := range Kinds() {
		if k.Defaults == nil {
			continue
		}
		seen := make(map[string]string)
		for _, f := range reflect.VisibleFields(reflect.TypeOf(k.Defaults(""))) { // those of embedded structs, too
			tag := f.Tag
			name := tag.Get("option")
			if name == "" {
				continue
			}
			what := k.Name + " " + name
			if tag.Get("noted") == "" && !values.effective(t, seen, k, name) {
				t.Errorf("%s is accepted and changes nothing", what)
			}
			if tag.Get("unread") != "" {
				err := refusal(k, map[string]any{name: values.changed(k, name, "")})
				require.ErrorContains(t, err, fmt.Sprintf("%q", name), what)
				require.ErrorContains(t, err, "leave it out", what)
			}
			if other := tag.Get("with"); other != "" {
				err := refusal(k, map[string]any{name: values.changed(k, name, "")})
				require.ErrorContains(t, err, name+`": bad option: `, what)
				require.ErrorContains(t, err, "which has no effect, as "+other+" is false", what)
			}
			readers := strings.Fields(tag.Get("rules"))
			// svg has other rules
			if slices.ContainsFunc(k.Rules, func(rules string) bool { return slices.Contains(readers, rules) }) {
				for _, rules := range k.Rules {
					err := refusal(k, map[string]any{name: values.changed(k, name, rules), "rules": rules})
					if strings.Contains(tag.Get("rules"), rules) {
						require.NoError(t, err, "%s under %s", what, rules)
					} else {
						require.ErrorContains(t, err, fmt.Sprintf("%q", name), "%s under %s", what, rules)
					}
				}
			}
		}
	}
}

func refusal(k Kind, config map[string]any) error {
	_, err := k.Make(config)
	return err
}

// changed is another value of an option than its default.
func (o *optionTable) changed(k Kind, name, rules string) any {
	if v, ok := o.Own[k.Name+" "+name]; ok {
		return v
	}
	if v, ok := o.Other[name]; ok {
		return v
	}
	switch v := env.OptionValues(k.Defaults(rules))[name].(type) {
	case bool:
		return !v
	case int:
		return v + 1
	case int64:
		return v + 1
	case float64:
		return v + 0.25
	case string:
		if v == "free_think" {
			return "wm"
		}
		if v == "text" {
			return "vision"
		}
		return "text"
	}
	return "?"
}

// effective reports whether an option changes an episode or is refused in one of
// the contexts that an environment accepts.
func (o *optionTable) effective(t *testing.T, seen map[string]string, k Kind, name string) bool {
	for _, context := range o.Contexts {
		key := fmt.Sprint(context)
		if _, done := seen[key]; !done {
			seen[key] = recordOf(t, k, context)
		}
		if strings.HasPrefix(seen[key], "refused") {
			continue
		}
		config := map[string]any{}
		for n, v := range context {
			config[n] = v
		}
		rules, _ := config["rules"].(string)
		config[name] = o.changed(k, name, rules)
		if now := recordOf(t, k, config); now != seen[key] {
			return true
		}
	}
	return false
}

// recordOf plays short episodes and records everything that an agent and its trainer get.
func recordOf(t *testing.T, k Kind, config map[string]any) string {
	small := maps.Clone(config)
	if _, drawn := env.OptionValues(k.Defaults(""))["resolution"]; drawn && config["resolution"] == nil {
		small = envtest.Options("resolution: 64") // small pictures are drawn quickly
		maps.Copy(small, config)
	}
	e, err := k.Make(small)
	if err != nil {
		return "refused: " + err.Error()
	}
	defer e.Close()
	ctx := context.Background()
	var b strings.Builder
	show := func(o env.Observation, err error) {
		fmt.Fprintln(&b, o.Text, err)
		for _, img := range o.Images {
			fmt.Fprintln(&b, digest(img))
		}
	}
	show(e.System(ctx))
	for _, seed := range []int64{1} {
		show(e.Reset(ctx, seed))
		for _, r := range append(responses, richer...) {
			out, err := e.Step(ctx, strings.ReplaceAll(r, ">o<", ">the box is above<"))
			show(out.Observation, err)
			fmt.Fprintln(&b, out.Reward, out.Done, out.Success, out.Turn, out.Trajectory, out.Response, out.Claims)
		}
	}
	return b.String()
}

func digest(img image.Image) string {
	h := fnv.New64()
	box := img.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y += 3 {
		for x := box.Min.X; x < box.Max.X; x += 2 {
			r, g, b, _ := img.At(x, y).RGBA()
			h.Write([]byte{byte(r), byte(g), byte(b)})
		}
	}
	return fmt.Sprint(box, h.Sum64())
}
