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
	"vagen/env/internal/envtest"
	"vagen/env/remote"
	"vagen/internal/golden"
	"vagen/reward/judge"
)

// originals has all options of the originals' environments with their defaults: the dataclasses of branch
// vagen-legacy (vagen/env/base/base_env_config.py and env_config.py of each environment) and branch main (vagen/envs).
// A prompt format, a list or a number stands there as here.
type originals struct {
	Parts        map[string]map[string]any
	Environments []struct {
		Name, Rules string
		With        []string // parts
		Defaults    map[string]any
	}
}

var (
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
	values := golden.Table[optionTable](t, "options.yaml")
	kinds := map[string]Kind{}
	for _, k := range Kinds() {
		kinds[k.Name] = k
	}
	table := golden.Table[originals](t, "originals.yaml")
	for _, o := range table.Environments {
		defaults := map[string]any{}
		for _, part := range o.With {
			maps.Copy(defaults, table.Parts[part])
		}
		maps.Copy(defaults, o.Defaults)
		k, what := kinds[o.Name], o.Name
		base := map[string]any{}
		if o.Rules != "" {
			what += " " + o.Rules
			base["rules"] = o.Rules
		}
		options := k.Defaults(o.Rules)
		ours := env.OptionValues(options)
		given := maps.Clone(base)
		for name, value := range defaults {
			require.Contains(t, ours, name, what)
			if !slices.Contains(otherDefaults, name) {
				require.True(t, sameDefault(value, ours[name]), "%s: %s is %v, the original's is %v", what, name, ours[name], value)
			}
			if name != "data_dir" { // the original downloads its data into this folder
				given[name] = value
			}
			config := maps.Clone(base)
			config[name] = values.changed(k, name, o.Rules)
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
		envtest.Reset(t, e, 0)
		prediction := ""
		if c.format == "grounding_worldmodeling_structured" {
			prediction = "<prediction>p</prediction>"
		}
		out := envtest.Play(t, e, "<think><observation>"+c.text+"</observation><reasoning>r</reasoning>"+prediction+
			"</think><answer>"+c.answer+"</answer>")
		require.Equal(t, c.pay, out.Reward.Of("observation"), "%s: %s", c.name, c.text)
	}
}
