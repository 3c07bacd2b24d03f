package worker

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/field"
	"vagen/internal/origin"
	"vagen/internal/redact"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/train/queue"
)

// Keys are environment variables with keys of services, each with the addresses of the servers that may get it,
// such as http://gpu1:8000. Scheme, host and port count, the path does not. Which variables and addresses a
// worker is asked to use is up to whoever controls the queue: what is not listed is refused. The zero value
// allows none.
type Keys map[string][]string

// Set adds what a text such as VLLM_KEY=http://gpu1:8000,http://gpu2:8000 lists.
func (k *Keys) Set(text string) error {
	name, addresses, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf(
			"worker: %w: %q must be of the form NAME=http://host:8000, with commas between several addresses",
			queue.ErrOption,
			text,
		)
	}
	added := Keys{name: strings.Split(addresses, ",")}
	if err := added.check(); err != nil {
		return err
	}
	if *k == nil {
		*k = Keys{}
	}
	(*k)[name] = append((*k)[name], added[name]...)
	return nil
}

// check returns an error that wraps queue.ErrOption unless there are names and addresses.
func (k Keys) check() error {
	c := field.Options("worker", queue.ErrOption)
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if name == "" || strings.ContainsAny(name, "= ") {
			c.Bad("Keys", "%q, must be the name of an environment variable", name)
		}
		for _, a := range k[name] {
			u, ok := origin.Parse(a)
			if !ok || u.Hostname() == "" || u.User != nil {
				c.Bad("Keys", "%q for %s, must be an address such as http://host:8000", redact.Text(a), name)
			}
		}
	}
	return c.Err()
}

// allow returns an error unless the variables, which a setting of the run names, may be sent to the addresses.
func (k Keys) allow(setting string, variables []string, addresses ...string) error {
	for _, name := range variables {
		for _, address := range addresses {
			if k.allows(name, address) {
				continue
			}
			return fmt.Errorf(
				"%s of the run asks for the environment variable %s for %s, but this worker may send it %s: "+
					"to allow it, use --allow-key %s=%s (in a program Options.Keys)",
				setting,
				name,
				redact.Text(address),
				k.describe(name),
				name,
				redact.Text(address),
			)
		}
	}
	return nil
}

func (k Keys) allows(name, address string) bool {
	to, err := url.Parse(address)
	return err == nil && slices.ContainsFunc(k[name], func(allowed string) bool {
		u, err := url.Parse(allowed)
		return err == nil && origin.Same(u, to)
	})
}

// describe says where a variable may be sent.
func (k Keys) describe(name string) string {
	if len(k[name]) == 0 {
		return "nowhere"
	}
	return "only to " + strings.Join(k[name], ", ")
}

// allowEngine checks the key of the servers of the configuration.
func (h *host) allowEngine() error {
	e := &h.config.Agent.Rollout.Engine
	if e.KeyEnv == "" {
		return nil
	}
	return h.opts.Keys.allow("actor_rollout_ref.rollout.engine.api_key_env", []string{e.KeyEnv}, e.Addresses...)
}

// allowJudge checks the key of a judge.
func (h *host) allowJudge(block *judge.StateReward) error {
	return h.opts.Keys.allow("state_reward.judge.key_env", client.KeyNames(block), block.JudgeURL)
}

// dial connects to a judge, as client.Dial does, if the worker may send its key there.
func (h *host) dial(block *judge.StateReward) (judge.Completer, error) {
	if err := h.allowJudge(block); err != nil {
		return nil, err
	}
	return client.Dial(h.log())(block)
}
