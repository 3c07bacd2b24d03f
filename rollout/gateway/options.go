package gateway

import (
	"encoding/json"
	"fmt"
	"net"

	"vagen/env"
	"vagen/internal/field"
	"vagen/internal/origin"
)

// Values of Options.Constraints.
const (
	Refuse = "refuse" // requests that demand a form of answers get an error
	Count  = "count"  // they are answered like others, and counted
)

// Options are the options of the environment agent. One of Command, URL and Wait says where the
// agent comes from, unless the program that opened the Gateway has its own.
type Options struct {
	// Command starts the agent of an episode, see Episode.environ for what it gets.
	Command []string `option:"command"`
	// URL is asked with POST to play an episode; the answer ends it.
	URL string `option:"url"`
	// Wait lets episodes wait until a client takes them with POST /episodes.
	Wait bool `option:"wait"`
	// Task is passed to the agent.
	Task map[string]any `option:"task"`
	// Listen is the gateway's address, TokenEnv the environment variable with its token. Addresses
	// that other machines reach need one.
	Listen   string `option:"listen"`
	TokenEnv string `option:"token_env" holds:"variable"`
	// Host is the name in the addresses that agents get; "" is the address of Listen.
	Host string `option:"host"`
	// RewardCommand scores an episode: it reads a Record and writes a Score, both as JSON.
	RewardCommand []string `option:"reward_command"`
	RewardTimeout float64  `option:"reward_timeout" range:">0,1e6" must:"be in (0, 1e6]"` // seconds
	// Constraints is Refuse or Count.
	Constraints string `option:"constraints" oneof:"refuse count"`
	// Processes is how many agents run at a time, of all environments with the same number; 0 is no limit.
	Processes int `option:"processes" least:"0"`
}

// maxTask is the limit of Linux on a variable, without its name.
const maxTask = 128<<10 - len("VAGEN_TASK=\x00")

// errNoAgent means that nothing says where the agent comes from.
var errNoAgent = fmt.Errorf("gateway: option \"command\": %w: one of command, url and wait must be set", env.ErrOption)

// DefaultOptions returns options without an agent.
func DefaultOptions() Options {
	return Options{Listen: "127.0.0.1:0", RewardTimeout: 60, Constraints: Refuse}
}

// Validate lists all faults of the options.
func (o *Options) Validate() error {
	f := field.Options("gateway", env.ErrOption)
	f.Struct(o, "option")
	if len(o.Command) > 0 && o.Command[0] == "" {
		f.Bad("command", "its first element is empty, must be a program")
	}
	if len(o.RewardCommand) > 0 && o.RewardCommand[0] == "" {
		f.Bad("reward_command", "its first element is empty, must be a program")
	}
	if command := len(o.Command) > 0; command && (o.URL != "" || o.Wait) || o.URL != "" && o.Wait {
		f.Bad("command", "more than one of command, url and wait is set, only one is allowed")
	}
	task, err := json.Marshal(o.Task)
	if err != nil {
		f.Bad("task", "%v, must be JSON", err)
	} else if len(o.Command) > 0 && len(task) > maxTask {
		f.Bad("task", "%d bytes of JSON, a command gets at most %d; use url", len(task), maxTask)
	}
	if _, ok := origin.Parse(o.URL); o.URL != "" && !ok {
		f.Bad("url", "%q is not allowed, must be a URL with http or https", o.URL)
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		f.Bad("listen", "%q is not allowed, must be host:port", o.Listen)
	} else if !origin.Loopback(o.Listen) && o.TokenEnv == "" {
		f.Bad("listen", "other machines reach %q, so that token_env must name an environment variable with a token", o.Listen)
	}
	if o.Processes > 0 && o.Wait {
		f.Bad("processes", "%d is not allowed, must be 0 with wait, which starts no agents", o.Processes)
	}
	return f.Err()
}
