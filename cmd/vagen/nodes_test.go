package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testcerts"
)

// TestNodesChangeNoByteOfARun trains with the command in one process, in two and in four. All files
// of the runs have the same bytes, except those that have the number of nodes. A run that resumes on
// two nodes from a checkpoint of one ends with the same weights and moments, and one whose nodes were
// killed resumes.
func TestNodesChangeNoByteOfARun(t *testing.T) {
	t.Setenv("VAGEN_TEST_NODE_KEY", "secret")
	dir := t.TempDir()
	config := divisible(t, dir)
	verb := "train"
	train := func(out string, overrides ...string) (*exec.Cmd, interface{ String() string }) {
		return command(t, dir, append([]string{verb, config, "--log", "warn", "--out", out}, overrides...)...)
	}
	// start starts count nodes, the leader last.
	start := func(out string, count string, overrides ...string) (nodes []*exec.Cmd, said []interface{ String() string }) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		overrides = append(overrides, "model.num_nodes="+count, "model.coordinator="+l.Addr().String(), "model.node_key_env=VAGEN_TEST_NODE_KEY")
		for _, id := range strings.Split("3 2 1 0", " ")[4-int(count[0]-'0'):] {
			name := out
			if id != "0" {
				name = "no-folder"
			}
			c, text := train(name, append(overrides, "model.node_id="+id)...)
			require.NoError(t, c.Start())
			t.Cleanup(func() { c.Process.Kill() })
			nodes, said = append(nodes, c), append(said, text)
		}
		return nodes, said
	}
	several := func(out, count string, overrides ...string) map[string]string {
		nodes, said := start(out, count, overrides...)
		for i, c := range nodes {
			require.NoError(t, c.Wait(), said[i].String())
		}
		require.NoDirExists(t, filepath.Join(dir, "no-folder"), "only node 0 writes")
		return undivided(t, filepath.Join(dir, out))
	}
	alone := func(out string, overrides ...string) map[string]string {
		c, said := train(out, overrides...)
		require.NoError(t, c.Run(), said.String())
		return undivided(t, filepath.Join(dir, out))
	}
	want := alone("one")
	requireTrained(t, want)
	requireSame(t, want, several("two", "2", "model.devices=2"), "two nodes of two devices")
	requireSame(t, want, several("four", "4"), "four nodes")
	ca := testcerts.Authority(t, "authority")
	cert := ca.Issue(t, "nodes", nil)
	secret := []string{"model.node_tls_ca=" + ca.File, "model.node_tls_cert=" + cert.File, "model.node_tls_key=" + cert.KeyFile}
	requireSameState(t, want, several("tls", "2", secret...), "two nodes with TLS")
	resume := []string{"trainer.resume_mode=resume_path", "trainer.resume_from_path=one/checkpoints/step_1"}
	requireSameState(t, want, several("more", "2", resume...), "two nodes after one")

	verb = "sft"
	lessons := strings.Fields("actor_rollout_ref.actor.use_kl_loss=false critic.kind=none sft.lessons.teacher=shortest_path sft.lessons.episodes=8 sft.total_training_steps=2 sft.save_freq=1 sft.train_batch_size=4 sft.max_length=1024 sft.truncation=drop sft.optim.lr_warmup_steps=0")
	taught := alone("taught", lessons...)
	require.Contains(t, taught, trainedWeights)
	requireSameState(t, taught, several("taught-by-two", "2", lessons...), "two nodes of the supervised stage")
	verb = "train"

	for killed, about := range []string{"a node that follows", "node 0"} {
		out := []string{"lost-follower", "lost-leader"}[killed]
		nodes, said := start(out, "2", "trainer.total_training_steps=500")
		first := filepath.Join(dir, out, "checkpoints", "step_1", "manifest.json")
		require.Eventually(t, func() bool { found, _ := filepath.Glob(first); return found != nil }, 2*time.Minute, 10*time.Millisecond)
		require.NoError(t, nodes[killed].Process.Kill())
		nodes[killed].Wait()
		require.Error(t, nodes[1-killed].Wait(), about)
		require.Contains(t, said[1-killed].String(), []string{"node 1", "node 0"}[killed])
		require.Regexp(t, "the node is lost", said[1-killed].String())
	}
	got := alone("resumed", "trainer.resume_mode=resume_path", "trainer.resume_from_path=lost-follower/checkpoints/step_1", "trainer.total_training_steps=2")
	requireSameState(t, want, got, "one process after a lost node")
}

func TestNodesOfTheCommandAreChecked(t *testing.T) {
	dir := t.TempDir()
	config := divisible(t, dir)
	for says, overrides := range map[string][]string{
		"model.num_nodes is 3, must be 1, 2, 4 or 8":                                             {"model.num_nodes=3"},
		"model.node_id is 2, must be in [0, 1] with model.num_nodes 2":                           {"model.num_nodes=2", "model.node_id=2", "model.coordinator=127.0.0.1:1"},
		"model.coordinator is \"\", must be host:port":                                           {"model.num_nodes=2"},
		"together at most 8 devices are allowed":                                                 {"model.num_nodes=4", "model.devices=4", "model.coordinator=127.0.0.1:1"},
		"but model.num_nodes is 1: there is no other node":                                       {"model.coordinator=127.0.0.1:1"},
		"the environment variable VAGEN_TEST_NO_SUCH_KEY is not set":                             {"model.num_nodes=2", "model.coordinator=127.0.0.1:1", "model.node_key_env=VAGEN_TEST_NO_SUCH_KEY"},
		"other machines can reach 192.0.2.1:9, so a token is needed":                             {"model.num_nodes=2", "model.coordinator=192.0.2.1:9"},
		"model.node_tls_cert, model.node_tls_key and model.node_tls_ca are Cert, CertKey and CA": {"model.num_nodes=2", "model.coordinator=127.0.0.1:1", "model.node_tls_cert=/no/cert", "model.node_tls_key=/no/key", "model.node_tls_ca=/no/ca"},
		"CA: open /no/ca: no such file or directory":                                             {"model.num_nodes=2", "model.coordinator=127.0.0.1:1", "model.node_tls_cert=/no/cert", "model.node_tls_key=/no/key", "model.node_tls_ca=/no/ca"},
		"trainer.stage is sft+rl, but model.num_nodes is 2":                                      {"model.num_nodes=2", "model.coordinator=127.0.0.1:1", "trainer.stage=sft+rl"},
		"not all of the 2 nodes were there within 1s: the node is lost":                          {"model.num_nodes=2", "model.coordinator=127.0.0.1:0", "model.node_timeout=1"},
	} {
		c, said := command(t, dir, append([]string{"train", config, "--out", "refused"}, overrides...)...)
		require.Error(t, c.Run(), says)
		require.Contains(t, said.String(), says)
	}
}
