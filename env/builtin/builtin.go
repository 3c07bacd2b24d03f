// Package builtin lists the environments that come with the library: Registry makes them by
// name, RegistryWith and LoggedRegistry with a judge of statements about the state. Kinds
// describes them.
package builtin

import (
	"fmt"
	"log/slog"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/navigation"
	"vagen/env/primitiveskill"
	"vagen/env/remote"
	"vagen/env/remote/openenv"
	"vagen/env/sokoban"
	"vagen/env/svg"
	"vagen/reward"
	"vagen/reward/judge"
)

// Kind is an environment of the library.
type Kind struct {
	Name  string
	About string   // what the agent does there
	Rules []string // values of the option "rules", the default first; nil without that option
	Make  env.Factory
	// Defaults returns the struct of options under one of Rules, for
	// env.OptionValues. Nil where a service defines the options.
	Defaults func(rules string) any
	// Own returns the struct of the environment's own options, where a service defines
	// the others.
	Own func() any
	// Claims says that statements about the state in responses can be rewarded: by the
	// option use_state_reward and, from a Registry, by the block state_reward, see
	// judge.StateReward.
	Claims bool
}

// OptionKinds declares the options of the environment and of its block
// state_reward, for env.Guard.
func (k Kind) OptionKinds() map[string]env.OptionKind {
	kinds := map[string]env.OptionKind{}
	if k.Defaults != nil {
		kinds = env.OptionKinds(k.Defaults(""))
	} else if k.Own != nil {
		kinds = env.OptionKinds(k.Own())
	}
	if k.Claims {
		for name, kind := range env.OptionKinds(judge.StateReward{}) {
			kinds[judge.Key+"."+name] = kind
		}
	}
	return kinds
}

// Kinds returns all environments of the library, by name.
func Kinds() []Kind {
	systems := []string{"lite", "next", "legacy"}
	return []Kind{
		{Name: "blackjack", About: "draw cards or stand against a dealer", Claims: true,
			Make: blackjack.FromConfig, Defaults: func(string) any { return blackjack.DefaultOptions() }},
		{Name: "frozenlake", About: "walk over a lake to the goal, around its holes", Rules: systems, Claims: true,
			Make: frozenlake.FromConfig, Defaults: ruled(frozenlake.DefaultOptions)},
		{Name: "navigation", About: "walk to an object in a generated room, seen from inside", Rules: systems, Claims: true,
			Make: navigation.FromConfig, Defaults: ruled(navigation.DefaultOptions)},
		{Name: "openenv", About: "whatever an OpenEnv server hosts that the option base_urls names", Make: openenv.FromConfig,
			Own: openenv.OwnOptions},
		{Name: "primitive_skill", About: "arrange things on a table with the skills of a robot arm", Rules: systems,
			Claims: true,
			Make:   primitiveskill.FromConfig, Defaults: ruled(primitiveskill.DefaultOptions)},
		{Name: "remote", About: "whatever a service hosts that the option base_urls names", Make: remote.FromConfig,
			Own: remote.OwnOptions},
		{Name: "remote_legacy", About: "whatever a service hosts that the option base_urls names, over the legacy protocol; env_name says which environment",
			Make: remote.LegacyFromConfig, Own: remote.LegacyOwnOptions},
		{Name: "sokoban", About: "push all boxes onto their targets", Rules: systems, Claims: true,
			Make: sokoban.FromConfig, Defaults: ruled(sokoban.DefaultOptions)},
		{Name: "svg", About: "write SVG code that draws a given picture", Rules: []string{"episode", "service"},
			Make: svg.FromConfig, Defaults: func(string) any { return svg.DefaultOptions() }},
	}
}

func ruled[O any](defaults func(env.Rules) O) func(string) any {
	return func(rules string) any { return defaults(env.Rules(rules)) }
}

// Registry returns a new registry of Kinds. The caller may add its own. Claims of
// environments with the option use_state_reward are judged by rules, see
// judge.Rules; SetJudge changes that. Claims of Sokoban are scored as by VAGEN legacy, whose
// option it is, but without its penalty for frequent texts, which would make scores depend
// on the order in which environments step. A block state_reward can have this penalty; it
// needs the scorer "rules" or "exact" here, see RegistryWith for the other.
func Registry() *env.Registry { return RegistryWith(nil) }

// RegistryWith is Registry whose blocks state_reward may ask a language model, as
// those with the scorer "judge" do, to which dial connects.
func RegistryWith(dial judge.Dial) *env.Registry { return LoggedRegistry(dial, nil) }

// LoggedRegistry is RegistryWith whose remote environments log retries, and services that end
// or return.
func LoggedRegistry(dial judge.Dial, log *slog.Logger) *env.Registry {
	r := new(env.Registry)
	all := &paid{dial: dial, judges: make(map[judge.StateReward]env.Judge)}
	lite, legacy := remote.DefaultClientOptions(), remote.DefaultLegacyOptions()
	lite.Log, legacy.Log = log, log
	for _, k := range Kinds() {
		switch k.Name {
		case "remote":
			k.Make = remote.Factory(lite)
		case "remote_legacy":
			k.Make = remote.LegacyFactory(legacy)
		}
		if err := r.Register(k.Name, all.factory(k), k.About); err != nil {
			panic(fmt.Sprintf("builtin: %v", err)) // names are unique, see the tests
		}
		if k.Own != nil {
			r.SetRemote(k.Name)
		}
	}
	exact := reward.SokobanScorer()
	exact.TopK = 0
	r.SetJudge(&judge.Rules{Scoring: judge.Scoring{Scorers: map[string]reward.Scorer{"sokoban": exact}}})
	return r
}
