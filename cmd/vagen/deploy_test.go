package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/train/config"
)

// manifest is the part of Kubernetes' objects that deploy/kubernetes.yaml uses. It is decoded
// strictly, as kubectl's validation does: an unknown or misplaced field is an error.
type manifest struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   metadata          `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
	Spec       struct {
		AccessModes []string `yaml:"accessModes"`
		Resources   struct {
			Requests map[string]string `yaml:"requests"`
		} `yaml:"resources"`
		Replicas     int    `yaml:"replicas"`
		BackoffLimit int    `yaml:"backoffLimit"`
		Ports        []port `yaml:"ports"`
		// Of a Service labels, of a Deployment an object with matchLabels.
		Selector map[string]any `yaml:"selector"`
		Template struct {
			Metadata metadata `yaml:"metadata"`
			Spec     pod      `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type metadata struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels"`
}

type port struct {
	Name          string `yaml:"name"`
	Port          int    `yaml:"port"`
	TargetPort    string `yaml:"targetPort"`
	ContainerPort int    `yaml:"containerPort"`
}

type pod struct {
	RestartPolicy   string           `yaml:"restartPolicy"`
	Grace           int              `yaml:"terminationGracePeriodSeconds"`
	SecurityContext map[string]int64 `yaml:"securityContext"`
	Containers      []container      `yaml:"containers"`
	Volumes         []struct {
		Name  string `yaml:"name"`
		Claim struct {
			Name string `yaml:"claimName"`
		} `yaml:"persistentVolumeClaim"`
		ConfigMap struct {
			Name string `yaml:"name"`
		} `yaml:"configMap"`
	} `yaml:"volumes"`
}

type container struct {
	Name  string   `yaml:"name"`
	Image string   `yaml:"image"`
	Args  []string `yaml:"args"`
	Env   []struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom struct {
			Secret struct {
				Name string `yaml:"name"`
				Key  string `yaml:"key"`
			} `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
	Ports     []port `yaml:"ports"`
	Readiness struct {
		HTTP struct {
			Path string `yaml:"path"`
			Port string `yaml:"port"`
		} `yaml:"httpGet"`
		Period int `yaml:"periodSeconds"`
	} `yaml:"readinessProbe"`
	Resources struct {
		Limits   map[string]string `yaml:"limits"`
		Requests map[string]string `yaml:"requests"`
	} `yaml:"resources"`
	Mounts []struct {
		Name     string `yaml:"name"`
		Path     string `yaml:"mountPath"`
		ReadOnly bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// composeFile is deploy/compose.yaml.
type composeFile struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Build       map[string]string `yaml:"build"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Volumes     []string          `yaml:"volumes"`
		Restart     string            `yaml:"restart"`
		Grace       string            `yaml:"stop_grace_period"`
		DependsOn   []string          `yaml:"depends_on"`
		GPUs        string            `yaml:"gpus"`
	} `yaml:"services"`
}

func deployed(t *testing.T, name string) []byte {
	t.Helper()
	return testkit.Read(t, "../../deploy/"+name)
}

var variable = regexp.MustCompile(`\$(\((\w+)\)|\{(\w+)\})`)

// parseCommand parses arguments of vagen with the program's own flags, without running the
// command, and returns the values of the flags.
func parseCommand(t *testing.T, args []string, known func(name string) bool) map[string]string {
	t.Helper()
	args = slices.Clone(args)
	for i := range args {
		args[i] = variable.ReplaceAllStringFunc(args[i], func(v string) string {
			name := strings.Trim(v, "$(){}")
			require.True(t, known(name), "%s is used, but not set", name)
			return "x"
		})
	}
	values := map[string]string{}
	var dry func(c cli.Command) *cli.Command
	dry = func(c cli.Command) *cli.Command {
		for i, sub := range c.Commands {
			c.Commands[i] = dry(*sub)
		}
		if setup := c.Setup; setup != nil {
			c.Setup = func(f *flag.FlagSet) cli.Run {
				setup(f)
				return func(context.Context, *cli.Call) error {
					f.VisitAll(func(one *flag.Flag) { values[one.Name] = one.Value.String() })
					return nil
				}
			}
		}
		return &c
	}
	var said bytes.Buffer
	require.Equal(t, cli.OK, cli.Main(t.Context(), dry(*program()), cli.Streams{Out: io.Discard, Err: &said}, args),
		"%q: %s", args, &said)
	require.NotEmpty(t, values)
	return values
}

// checkRun checks the configuration of the trainer.
func checkRun(t *testing.T, raw string) config.Config {
	t.Helper()
	c, err := config.Load(testkit.File(t, "run.yaml", raw))
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, config.QueueEmbedded, c.Run.Queue)
	return c
}

// TestTheKubernetesExampleIsConsistent: every object has only known fields, selectors and
// services match pods and ports, volumes and secrets exist, and every command is one of vagen.
func TestTheKubernetesExampleIsConsistent(t *testing.T) {
	versions := map[string]string{"PersistentVolumeClaim": "v1", "ConfigMap": "v1", "Service": "v1", "Job": "batch/v1",
		"Deployment": "apps/v1"}
	objects := map[string]manifest{} // by kind and name
	d := yaml.NewDecoder(bytes.NewReader(deployed(t, "kubernetes.yaml")), yaml.Strict(), yaml.DisallowUnknownField())
	for {
		var m manifest
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, versions[m.Kind], m.APIVersion, m.Kind)
		require.Regexp(t, `^[a-z][a-z0-9-]*$`, m.Metadata.Name)
		objects[m.Kind+"/"+m.Metadata.Name] = m
	}
	require.Len(t, objects, 9)
	text := objects["ConfigMap/vagen-run"].Data["run.yaml"]
	require.Equal(t, string(deployed(t, "run.yaml")), text, "deploy/run.yaml is the same configuration")
	c := checkRun(t, text)

	pods := map[string]pod{} // by label app
	for name, m := range objects {
		if m.Kind != "Job" && m.Kind != "Deployment" {
			continue
		}
		p, label := m.Spec.Template.Spec, m.Spec.Template.Metadata.Labels["app"]
		require.NotEmpty(t, label, name)
		pods[label] = p
		if m.Kind == "Deployment" {
			require.Equal(t, map[string]any{"app": label}, m.Spec.Selector["matchLabels"], name)
			require.Positive(t, m.Spec.Replicas, name)
		} else {
			require.Equal(t, "OnFailure", p.RestartPolicy, name)
		}
		require.Len(t, p.Containers, 1, name)
		for _, k := range p.Containers {
			checkContainer(t, objects, p, k)
		}
	}
	for name, m := range objects {
		if m.Kind != "Service" {
			continue
		}
		p, ok := pods[m.Spec.Selector["app"].(string)]
		require.True(t, ok, name)
		for _, s := range m.Spec.Ports {
			require.True(t, slices.ContainsFunc(p.Containers[0].Ports, func(at port) bool {
				return at.Name == s.TargetPort && at.ContainerPort == s.Port
			}), "%s: port %s", name, s.Name)
		}
	}
	worker := pods["vagen-worker"]
	flags := parseCommand(t, worker.Containers[0].Args, func(string) bool { return false })
	require.Contains(t, objects, "Service/"+hostOf(t, strings.TrimPrefix(flags["queue"], "nats://")))
	drain, err := time.ParseDuration(flags["drain-timeout"])
	require.NoError(t, err)
	require.Less(t, drain.Seconds(), float64(worker.Grace))
	require.Equal(t, c.Run.QueueOptions.KeyEnv, flags["key-env"])
	for _, address := range append(c.Agent.Rollout.Engine.Addresses, c.Env.Config["base_urls"].(string)) {
		require.Contains(t, objects, "Service/"+hostOf(t, strings.TrimPrefix(address, "http://")))
	}
}

// checkContainer checks volumes, variables and the command of a container.
func checkContainer(t *testing.T, objects map[string]manifest, p pod, k container) {
	t.Helper()
	for _, v := range k.Mounts {
		found := false
		for _, of := range p.Volumes {
			if of.Name == v.Name {
				found = objects["PersistentVolumeClaim/"+of.Claim.Name].Kind != "" ||
					objects["ConfigMap/"+of.ConfigMap.Name].Kind != ""
			}
		}
		require.True(t, found, "%s: volume %s", k.Name, v.Name)
	}
	names := map[string]bool{}
	for _, e := range k.Env {
		names[e.Name] = true
		require.False(t, (e.Value == "") == (e.ValueFrom.Secret.Key == ""), "%s: %s", k.Name, e.Name)
		if e.Value == "" {
			require.Equal(t, "vagen", e.ValueFrom.Secret.Name)
		}
	}
	if p := k.Readiness.HTTP.Port; p != "" {
		require.True(t, slices.ContainsFunc(k.Ports, func(at port) bool { return at.Name == p }), k.Name)
	}
	if k.Image != "vagen:latest" {
		require.Regexp(t, `^vllm/vllm-openai:v`, k.Image)
		require.Contains(t, k.Args, "--enable-scale-out")
		return
	}
	flags := parseCommand(t, k.Args, func(name string) bool { return names[name] })
	for _, f := range []string{"key-env", "api-key-env"} {
		if v := flags[f]; v != "" {
			require.True(t, names[v], "%s: --%s %s is not set", k.Name, f, v)
		}
	}
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return host
}

// TestTheComposeFileIsConsistent: it has only known fields, runs the same commands, and all
// hosts that are named are its services.
func TestTheComposeFileIsConsistent(t *testing.T) {
	var c composeFile
	require.NoError(t, yaml.UnmarshalWithOptions(deployed(t, "compose.yaml"), &c, yaml.Strict(),
		yaml.DisallowUnknownField()))
	run := checkRun(t, string(deployed(t, "run.yaml")))
	require.Len(t, c.Services, 4)
	for name, s := range c.Services {
		if s.Image != "vagen:latest" {
			require.Contains(t, s.Command, "--enable-scale-out")
			continue
		}
		flags := parseCommand(t, s.Command, func(string) bool { return true }) // from the caller's environment
		for _, f := range []string{"key-env", "api-key-env"} {
			if v := flags[f]; v != "" {
				require.Contains(t, s.Environment, v, name)
			}
		}
		if q := flags["queue"]; q != "" {
			require.Contains(t, c.Services, hostOf(t, strings.TrimPrefix(q, "nats://")))
		}
		for _, on := range s.DependsOn {
			require.Contains(t, c.Services, on)
		}
	}
	require.Contains(t, c.Services["trainer"].Environment, run.Run.QueueOptions.KeyEnv)
	require.Contains(t, string(deployed(t, "Containerfile")), `ENTRYPOINT ["vagen"]`)
}
