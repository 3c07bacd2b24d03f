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
)

// Values that differ from the defaults, for options that need a specific one.
var otherValues = map[string]any{
	"rules": "legacy", "desc": []any{"SF", "FG"}, "action_sep": "&", "prompt": "brief", "dim_room": []any{8, 7},
	"min_solution_steps": []any{2, 9}, "retry": "lcg", "p": 0.5, "slip_prob": 0.9, "eval_set": "common_sense",
	"down_sample_ratio": 0.02,
	"example_count":     1, "resolution": 100, "max_actions_per_step": 1, "max_steps": 2, "env_id": "StackThreeCube",
	"map_seed":           77,
	"special_token_list": []any{"box", "above"}, "dino_weight": 1, "dreamsim_weight": 1, "structural_weight": 1,
	"perceptual_weight": 1,
	"dino_url":          "http://127.0.0.1:1", "dreamsim_url": "http://127.0.0.1:1", "score_timeout": 4000, "tile_size": 40,
	"model_size": "huge",
	"data_dir":   "nowhere", "max_objects_in_state": 1, "success_threshold": 90, "reset_seed_max_tries": 1,
	"min_solution_bfs_max_depth": 1,
	"device":                     map[string]any{"dino": 1},
}

// Values for options that need another value in one environment.
var ownValues = map[string]any{"sokoban desc": []any{"#####", "#PXO#", "#####"}, "svg rules": "service",
	"blackjack max_actions_per_step": 2, "svg max_actions_per_step": 2}

// Responses that are not in the list of env.Check.
var richer = []string{
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>push(-100,0,20,100,0,20)</answer>",
	`<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>mine~~<svg viewBox="0 0 9 9"><path d="M1 1h5v5z"/></svg></answer>`,
	`<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer><svg viewBox="0 0 9 9"><path d="M1 1h5v5z"/></svg></answer>`,
}

// Settings with which some options have an effect.
var optionContexts = []map[string]any{
	nil, {"render_mode": "text"}, {"render_mode": "vision"}, {"rules": "legacy"}, {"rules": "next"},
	{"use_state_reward": true, "prompt_format": "grounding_worldmodeling"},
	{"use_state_reward": true, "prompt_format": "grounding_worldmodeling", "rules": "legacy"},
	{"observation_reward": 1, "rules": "legacy", "prompt_format": "observe_predict"},
	{"desc": []any{"SF", "HG"}}, {"desc": []any{"#####", "#PXO#", "#####"}}, {"min_solution_steps": []any{3, 5}},
	{"success_threshold": 90},
	{"min_solution_steps": []any{12, 13}},
}

// Every option of every environment changes observations or rewards, or is refused by
// name, or its tag says why it is accepted without effect.
func TestEveryOptionIsHonouredRefusedOrNoted(t *testing.T) {
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
			if tag.Get("noted") == "" && !effective(t, seen, k, name) {
				t.Errorf("%s is accepted and changes nothing", what)
			}
			if tag.Get("unread") != "" {
				err := refusal(k, map[string]any{name: changed(k, name, "")})
				require.ErrorContains(t, err, fmt.Sprintf("%q", name), what)
				require.ErrorContains(t, err, "leave it out", what)
			}
			if other := tag.Get("with"); other != "" {
				err := refusal(k, map[string]any{name: changed(k, name, "")})
				require.ErrorContains(t, err, name+`": bad option: `, what)
				require.ErrorContains(t, err, "which has no effect, as "+other+" is false", what)
			}
			readers := strings.Fields(tag.Get("rules"))
			// svg has other rules
			if slices.ContainsFunc(k.Rules, func(rules string) bool { return slices.Contains(readers, rules) }) {
				for _, rules := range k.Rules {
					err := refusal(k, map[string]any{name: changed(k, name, rules), "rules": rules})
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
func changed(k Kind, name, rules string) any {
	if v, ok := ownValues[k.Name+" "+name]; ok {
		return v
	}
	if v, ok := otherValues[name]; ok {
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
func effective(t *testing.T, seen map[string]string, k Kind, name string) bool {
	for _, context := range optionContexts {
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
		config[name] = changed(k, name, rules)
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
		small = map[string]any{"resolution": 64} // small pictures are drawn quickly
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
