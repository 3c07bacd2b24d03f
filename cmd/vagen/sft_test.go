package main

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestADryRunOfTheSupervisedStage, which plays no levels, says how many examples it has; train
// with trainer.stage=sft is the same.
func TestADryRunOfTheSupervisedStage(t *testing.T) {
	config, out := setup(t)
	chats := testkit.File(t, "chats.jsonl",
		`{"prompt": "hi", "response": "Up"}`+"\n"+`{"prompt": "ho", "response": "Left"}`+"\n")
	for _, command := range [][]string{{"sft"}, {"train", "trainer.stage=sft"}} {
		for _, from := range [][]string{
			{"sft.train_files=[" + chats + "]", "env.name=null", "env.config=null"},
			{"sft.lessons.teacher=shortest_path", "sft.lessons.episodes=2"},
		} {
			args := append([]string{command[0], config, "--dry-run", "--out", out, "sft.val_fraction=0"},
				append(command[1:], from...)...)
			text := succeed(t, args...)
			require.Contains(t, text, "supervised stage: 2 examples\n")
			require.Contains(t, text, "can be trained: 1 steps with ")
			require.NoDirExists(t, out)
		}
	}
}

// TestADryRunReadsTheExamplesAsTrainingWould: images are opened and decoded, texts are
// tokenised and their lengths compared with the limits.
func TestADryRunReadsTheExamplesAsTrainingWould(t *testing.T) {
	config, out := setup(t)
	// 20,000 by 20,000
	large := "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x4e\x20\x00\x00\x4e\x20\x08\x02\x00\x00\x00"
	large += string(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(large[12:]))))
	shows := func(path string) string {
		return `{"messages": [{"role": "user", "content": [{"type": "image", "image": "` + path +
			`"}]}, {"role": "assistant", "content": "Up"}]}`
	}
	for want, record := range map[string]string{
		"gone.png: no such file":              shows("gone.png"),
		"not a regular file":                  shows("/dev/zero"),
		"the image has 20000 by 20000 pixels": shows(testkit.File(t, "large.png", large)),
		"sft.max_length is 200": `{"prompt": "` + strings.Repeat("long ", 100) +
			`", "response": "Up"}`,
		`it is "robot", must be system, user, assistant`:           `{"messages": [{"role": "robot", "content": "a"}, {"role": "assistant", "content": "Up"}]}`,
		"the messages' text contains <|image_pad|>":                `{"prompt": "<|image_pad|>", "response": "Up"}`,
		"byte 16: 0xe9 is not UTF-8":                               "{\"prompt\": \"caf\xe9\", \"response\": \"Up\"}",
		"messages[0].role: it is assistant, but must follow a mes": `{"messages": [{"role": "assistant", "content": "Up"}]}`,
	} {
		chats := testkit.File(t, "chats.jsonl", record+"\n")
		args := []string{
			"sft", config, "--out", out, "sft.train_files=[" + chats + "]", "sft.val_fraction=0",
			"sft.max_length=200",
		}
		for _, flags := range [][]string{{"--dry-run"}, nil} {
			errs := refuse(t, want, append(args, flags...)...)
			require.Contains(t, errs, "chats.jsonl", want)
			require.NoDirExists(t, out)
		}
	}
}
