package builtin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
	"vagen/reward/judge"
)

// Options of an original environment with their defaults.
type original struct {
	name, rules string
	defaults    map[string]any
}

// fields puts maps together.
func fields(parts ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, p := range parts {
		maps.Copy(out, p)
	}
	return out
}

// All options of the originals' environments with their defaults: the dataclasses of branch
// vagen-legacy (vagen/env/base/base_env_config.py and env_config.py of each environment) and
// branch main (vagen/envs). A prompt format, a list or a number stands there as here.
var (
	legacyBase = map[string]any{
		"format_reward": 0.5, "image_placeholder": "<image>",
		"special_token_list": []string{"<think>", "</think>", "<answer>", "</answer>"}, "action_sep": ",",
	}
	legacyPaid = map[string]any{"use_state_reward": false, "grounding_reward_weight": 0.5,
		"worldmodeling_reward_weight": 0.5}
	liteLevel = map[string]any{"action_sep": ",", "image_placeholder": "<image>", "use_example_in_sys_prompt": true,
		"render_mode": "text", "success_reward": 1.0}
	originals = []original{
		{"frozenlake", "legacy", fields(legacyBase, legacyPaid,
			map[string]any{"env_name": "frozenlake", "desc": nil, "is_slippery": false, "size": 4, "p": 0.8,
				"render_mode": "vision", "max_actions_per_step": 3, "min_actions_to_succeed": 5,
				"prompt_format": "grounding_worldmodeling"})},
		{"sokoban", "legacy", fields(legacyBase, legacyPaid, map[string]any{"env_name": "sokoban", "dim_room": []int{6, 6},
			"max_steps": 100, "num_boxes": 1, "render_mode": "vision",
			"min_actions_to_succeed": 5, "max_actions_per_step": 3, "prompt_format": "grounding_worldmodeling"})},
		{"navigation", "legacy", fields(legacyBase, legacyPaid,
			map[string]any{"env_name": "navigation", "resolution": 255, "eval_set": "base", "down_sample_ratio": 1.0, "fov": 100,
				"multiview": false, "render_mode": "vision", "max_actions_per_step": 5, "max_action_penalty": -0.1, "gpu_device": 0,
				"prompt_format":     "grounding_worldmodeling",
				"success_threshold": 1.5, "step_length": 0.5, "max_objects_in_state": 5})},
		{"primitive_skill", "legacy", fields(legacyBase, legacyPaid,
			map[string]any{"env_name": "primitive_skill", "env_id": "AlignTwoCube", "render_mode": "vision",
				"max_actions_per_step": 2,
				"action_sep":           "|", "record_video": false, "video_record_dir": "./test", "mask_success": true,
				"prompt_format": "grounding_worldmodeling"})},
		{"svg", "", fields(legacyBase, map[string]any{"dataset_name": "starvector/svg-icons-simple", "data_dir": "data",
			"seed": 42, "split": "train", "action_sep": "~~", "model_size": "small",
			"dino_weight": nil, "structural_weight": nil, "dreamsim_weight": nil,
			"device": map[string]any{"dino": 0, "dreamsim": 0}, "format_penalty": 0.0,
			"prompt_format": "grounding_worldmodeling", "use_state_reward": false})},
		{"blackjack", "", fields(legacyBase, map[string]any{"env_name": "blackjack", "natural": false, "sab": false,
			"render_mode": "vision", "max_actions_per_step": 1,
			"prompt_format": "free_think", "use_state_reward": false})},
		{"frozenlake", "lite", fields(liteLevel, map[string]any{"size": 4, "desc": nil, "is_slippery": false,
			"slip_prob": 0.0, "p": 0.8, "max_actions_per_step": 5,
			"prompt_format": "free_think", "format_reward": 0.02})},
		{"sokoban", "lite", fields(liteLevel, map[string]any{"dim_room": []int{6, 6}, "max_steps": 100, "num_boxes": 1,
			"max_actions_per_step": 3, "min_solution_steps": nil,
			"reset_seed_max_tries": 10000, "min_solution_bfs_max_depth": 200, "prompt_format": "wm", "format_reward": 0.1})},
		{"navigation", "lite", map[string]any{"env_name": "navigation", "resolution": 255, "eval_set": "base",
			"down_sample_ratio": 1.0, "fov": 100, "multiview": false,
			"max_actions_per_step": 5, "action_sep": "|", "max_steps": 30, "format_reward": 0.0, "per_turn_format_reward": 0.01,
			"success_reward": 1.0, "gpu_device": 0,
			"prompt_format": "free_think", "example_count": 0, "success_threshold": 1.0, "step_length": 0.3,
			"image_placeholder": "<image>"}},
		{"primitive_skill", "lite", map[string]any{"env_name": "primitive_skill", "env_id": "AlignTwoCube",
			"render_mode": "vision", "max_actions_per_step": 2, "action_sep": "|",
			"max_steps": 10, "record_video": false, "video_record_dir": "./test", "mask_success": true, "prompt_format": "wm",
			"format_reward": 0.1, "success_reward": 10.0,
			"use_state_reward": false, "grounding_reward_weight": 0.5, "worldmodeling_reward_weight": 0.5, "gpu_device": 0,
			"image_placeholder": "<image>"}},
	}
	// Defaults that differ here: names of the environment itself, folders of the
	// original's data, and devices, which this library has none of.
	otherDefaults = []string{"env_name", "data_dir", "device", "video_record_dir"}
	// Options whose other values are refused, and those that are accepted without effect
	// because the original's have none either, or have a counterpart elsewhere. All others
	// are honoured.
	refused = map[string][]string{
		"": {"env_name", "image_placeholder"}, "frozenlake legacy": {"min_actions_to_succeed"},
		"navigation legacy": {"multiview", "max_action_penalty", "gpu_device"},
		"navigation lite":   {"multiview", "gpu_device"}, "primitive_skill legacy": {"record_video"},
		"primitive_skill lite": {"record_video", "gpu_device", "use_state_reward"},
		"svg":                  {"use_state_reward", "dataset_name", "split"}, "blackjack": {},
	}
	noted = map[string][]string{
		"sokoban legacy": {"max_steps", "min_actions_to_succeed"}, "sokoban lite": {"max_steps"},
		"primitive_skill legacy": {"video_record_dir"},
		"primitive_skill lite":   {"video_record_dir"}, "svg": {"seed", "device"}, "blackjack": {"natural", "sab"},
	}
)

// TestEveryOptionOfTheOriginalsIsHonouredOrRefused: each is an option here, with the same
// default under the rules of its generation; it is accepted with that default; another value
// is refused by name, or honoured, which TestEveryOptionIsHonouredRefusedOrNoted shows for
// every option that its tag does not note.
func TestEveryOptionOfTheOriginalsIsHonouredOrRefused(t *testing.T) {
	kinds := map[string]Kind{}
	for _, k := range Kinds() {
		kinds[k.Name] = k
	}
	for _, o := range originals {
		k, what := kinds[o.name], o.name
		base := map[string]any{}
		if o.rules != "" {
			what += " " + o.rules
			base["rules"] = o.rules
		}
		options := k.Defaults(o.rules)
		ours := env.OptionValues(options)
		given := maps.Clone(base)
		for name, value := range o.defaults {
			require.Contains(t, ours, name, what)
			if !slices.Contains(otherDefaults, name) {
				require.True(t, sameDefault(value, ours[name]), "%s: %s is %v, the original's is %v", what, name, ours[name], value)
			}
			if name != "data_dir" { // the original downloads its data into this folder
				given[name] = value
			}
			config := maps.Clone(base)
			config[name] = changed(k, name, o.rules)
			if name == "env_name" || name == "image_placeholder" || name == "dataset_name" || name == "split" {
				config[name] = "another"
			}
			switch err := refusal(k, config); {
			case slices.Contains(refused[""], name) || slices.Contains(refused[what], name):
				require.ErrorContains(t, err, fmt.Sprintf("%q", name), what)
			case slices.Contains(noted[what], name):
				require.NoError(t, err, "%s %s", what, name)
				require.NotEmpty(t, tagOf(options, name).Get("noted"), "%s %s", what, name)
			default:
				require.Empty(t, tagOf(options, name).Get("noted"), "%s %s", what, name)
				require.Empty(t, tagOf(options, name).Get("unread"), "%s %s", what, name)
			}
		}
		require.NoError(t, refusal(k, given), what)
	}
}

// sameDefault compares a default with the original's; nil there is the empty value here.
func sameDefault(original, ours any) bool {
	if original == nil {
		return ours == nil || reflect.ValueOf(ours).IsZero() || reflect.ValueOf(ours).Kind() == reflect.Slice &&
			reflect.ValueOf(ours).Len() == 0
	}
	return fmt.Sprint(original) == fmt.Sprint(ours)
}

// tagOf returns the tag of an option.
func tagOf(options any, name string) reflect.StructTag {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(options)) {
		if f.Tag.Get("option") == name {
			return f.Tag
		}
	}
	return ""
}

// TestOptionsOfOriginalServicesHaveCounterparts: the configuration of the originals' servers
// (service_config.py) is not that of environments. Given to one, its options are refused,
// except use_state_reward, which the legacy system has in both places.
func TestOptionsOfOriginalServicesHaveCounterparts(t *testing.T) {
	for _, name := range []string{"top_strings_m", "top_strings_k", "max_workers", "devices", "preload_models",
		"max_process_workers", "max_thread_workers", "spawn_method", "timeout"} {
		for _, k := range Kinds() {
			if k.Defaults != nil {
				require.ErrorContains(t, refusal(k, map[string]any{name: 1}), fmt.Sprintf("%q", name), k.Name)
			}
		}
	}
	phrases := judge.DefaultStateReward().Phrases // top_strings_m and top_strings_k
	require.Equal(t, []any{1000, 5, 0.7, 0.1}, []any{phrases.Keep, phrases.Top, phrases.Enough, phrases.Penalty})
}

// TestClientsOfServicesHaveTheOriginalsOptions: vagen/envs_remote/gym_image_env_client.py of
// branch main, with its defaults.
func TestClientsOfServicesHaveTheOriginalsOptions(t *testing.T) {
	ours := env.OptionNames(remote.OwnOptions())
	for _, name := range []string{"base_urls", "url_file", "timeout", "retries", "backoff", "max_delay",
		"backoff_jitter_min", "backoff_jitter_range", "token", "log_retries",
		"failover_after_failures"} {
		require.Contains(t, ours, name)
	}
	o := remote.DefaultClientOptions()
	require.Equal(t, []any{120 * time.Second, 6, 2 * time.Second, 64 * time.Second, 0.7, 0.6, true, 4},
		[]any{o.Timeout, o.Retries, o.Backoff, o.MaxDelay, o.JitterMin, o.JitterRange, o.LogRetries, o.FailoverAfter})
}

// TestStructuredDescriptionsOfTheOriginalsArePaid: dictionaries of positions as the original
// prompts ask for them, with their quotes and tuples, of the true state.
func TestStructuredDescriptionsOfTheOriginalsArePaid(t *testing.T) {
	for _, c := range []struct {
		name   string
		desc   []any
		format string
		answer string
		text   string
		pay    float64
	}{
		{"sokoban", []any{"######", "#P___#", "#_X__#", "#__O_#", "######"}, "grounding_structured", "Right",
			`{"player":(1,1),"box":(2,2),"target":(3,3)}`, 0.5},
		{"sokoban", []any{"######", "#P___#", "#_X__#", "#__O_#", "######"}, "grounding_structured", "Right",
			`{"player":(1,1),"box":(2,2),"target":(3,0)}`, 0.25},
		{"sokoban", []any{"######", "#P___#", "#_X__#", "#__O_#", "######"}, "grounding_worldmodeling_structured", "Right",
			`[{"object_id":"target","vertical_relation":"below","horizontal_relation":"right"},{"object_id":"box","vertical_relation":"below","horizontal_relation":"right"}]`, 0.5},
		{"frozenlake", []any{"SFF", "FFF", "FFG"}, "grounding_structured", "Right", `{'player':(0,0),'target':(2,2)}`, 0.5},
	} {
		e, err := Registry().New(c.name, map[string]any{"rules": "legacy", "render_mode": "text", "desc": c.desc,
			"prompt_format": c.format, "use_state_reward": true})
		require.NoError(t, err)
		_, err = e.Reset(t.Context(), 0)
		require.NoError(t, err)
		prediction := ""
		if c.format == "grounding_worldmodeling_structured" {
			prediction = "<prediction>p</prediction>"
		}
		out, err := e.Step(t.Context(), "<think><observation>"+c.text+"</observation><reasoning>r</reasoning>"+prediction+
			"</think><answer>"+c.answer+"</answer>")
		require.NoError(t, err)
		require.Equal(t, c.pay, out.Reward.Of("observation"), "%s: %s", c.name, c.text)
	}
}
