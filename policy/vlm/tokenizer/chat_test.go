package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// withTemplate returns the Chat of a tiny tokenizer with another template.
func withTemplate(t testing.TB, template string, vars map[string]any) (*Chat, error) {
	t.Helper()
	tok := tiny(t, "<|stop|>")
	tok.template = template
	tok.names = map[string]string{"bos_token": "<|start|>"}
	return tok.Chat(vars)
}

func chatOf(t testing.TB, template string) *Chat {
	t.Helper()
	c, err := withTemplate(t, template, nil)
	require.NoError(t, err)
	return c
}

// opened renders messages that open a conversation.
func opened(t testing.TB, c *Chat, messages ...Message) string {
	t.Helper()
	text, err := c.Open(messages)
	require.NoError(t, err)
	return text
}

func withImage(role string, texts ...string) Message {
	m := Message{Role: role}
	for i, text := range texts {
		if i > 0 {
			m.Parts = append(m.Parts, Part{Image: true})
		}
		if text != "" {
			m.Parts = append(m.Parts, Part{Text: text})
		}
	}
	return m
}

func TestTinyChatIsThatOfQwen25VL(t *testing.T) {
	c, err := tiny(t).Chat(nil)
	require.NoError(t, err)
	got := opened(t, c, withImage(RoleUser, "see ", " and ", ""))
	require.Equal(t, "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"+
		"<|im_start|>user\nsee <|vision_start|><|image_pad|><|vision_end|> and <|vision_start|><|image_pad|><|vision_end|><|im_end|>\n"+
		"<|im_start|>assistant\n", got)
	got, err = c.Render([]Message{Text(RoleSystem, " S"), Text(RoleUser, "")})
	require.NoError(t, err)
	require.Equal(t, "<|im_start|>system\n S<|im_end|>\n<|im_start|>user\n<|im_end|>\n", got)
	text, id := c.EndOfTurn()
	require.Equal(t, "<|im_end|>", text)
	require.Equal(t, int32(258), id)
	require.NotEmpty(t, c.image)
	require.False(t, c.RewritesHistory())
}

// Templates of other shapes than Qwen's.
const (
	// Llama 3: texts are trimmed, the first token opens the conversation.
	trimming = `{{- bos_token }}{%- for m in messages %}{{- '[' + m.role + ']' + m.content|trim + '<|stop|>' }}{%- endfor %}{%- if add_generation_prompt %}{{- '[assistant]' }}{%- endif %}`
	// Gemma: roles alternate, there is no system message.
	alternating = `{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}` +
		`{{ '<' ~ m.role ~ '>' ~ m.content ~ '<|stop|>' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`
	// Qwen3: reasoning is cut from earlier responses, a switch fills it in.
	thinking = `{%- for m in messages %}{%- set c = m.content %}{%- if m.role == 'assistant' and '</think>' in c %}{%- set c = c.split('</think>')[-1] %}{%- endif %}` +
		`{{- '<|im_start|>' + m.role + '\n' + c + '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}` +
		`{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}`
)

func TestOtherTemplatesAreReadToo(t *testing.T) {
	c := chatOf(t, trimming)
	got := opened(t, c, Text(RoleUser, " a \n"), Text(RoleAssistant, "b"), Text(RoleUser, "c"))
	require.Equal(t, "<|start|>[user]a<|stop|>[assistant]b<|stop|>[user]c<|stop|>[assistant]", got)
	require.True(t, c.RewritesHistory(), "responses are trimmed")
	require.Empty(t, c.image)
	_, err := c.Open([]Message{withImage(RoleUser, "a", "b")})
	require.ErrorIs(t, err, ErrText)

	c = chatOf(t, alternating)
	require.False(t, c.RewritesHistory())
	_, err = c.Open([]Message{Text(RoleSystem, "s"), Text(RoleUser, "a")})
	require.ErrorContains(t, err, "does not support a system message")
	_, err = c.Open([]Message{Text(RoleUser, "a"), Text(RoleUser, "b")})
	require.ErrorContains(t, err, "message 1: ")
	_, err = c.Open([]Message{Text(RoleAssistant, "a"), Text(RoleUser, "b")})
	require.ErrorContains(t, err, "begins with the assistant")
	_, err = c.Continue([]Message{Text(RoleAssistant, "a")}, EndedTurn)
	require.ErrorContains(t, err, "two assistant messages")

	c = chatOf(t, thinking)
	require.True(t, c.RewritesHistory())
	got = opened(t, c, Text(RoleUser, "a"))
	require.Equal(t, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", got)
	c, err = withTemplate(t, thinking, map[string]any{"enable_thinking": false})
	require.NoError(t, err)
	got, err = c.Continue([]Message{Text(RoleUser, "a")}, EndedTurn)
	require.NoError(t, err)
	require.Equal(t, "\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", got)
}

func TestVariablesWithoutEffectAreRefused(t *testing.T) {
	for want, vars := range map[string]map[string]any{
		"": {"enable_thinking": true, "thinking": false},
		"template variable think is 1, but the m":  {"enable_thinking": true, "think": 1},
		"messages is [], but conversations set it": {"messages": []any{}},
	} {
		tok := tiny(t)
		tok.template = thinking
		if err := tok.CheckVariables(vars); want == "" {
			require.NoError(t, err)
		} else {
			testkit.Error(t, err, ErrUnsupported, want)
		}
	}
}

func TestTemplatesThatDoMoreAreRefusedWithWhatTheyDo(t *testing.T) {
	const end = `{% if add_generation_prompt %}<|im_start|>assistant{% endif %}`
	for want, template := range map[string]string{
		"has no chat template": "",
		`statement "include"`:  "{% include 'x' %}",
		`filter "urlize"`:      "{% for m in messages %}{{ m.content|urlize }}{% endfor %}",
		"must each appear once": "{% for m in messages %}{{ m.content }}{{ m.content }}<|im_end|>{% endfor %}" +
			end,
		"in order":                          "{% for m in messages|reverse %}{{ m.content }}<|im_end|>{% endfor %}" + end,
		"more than concatenate messages":    "{% for m in messages %}{{ m.role ~ m.content.replace('<tag>', '') }}<|im_end|>{% endfor %}" + end,
		"not simply concatenated":           "{% for m in messages %}{{ loop.index ~ m.role ~ m.content }}<|im_end|>{% endfor %}" + end,
		"add_generation_prompt changes":     "{% for m in messages %}{{ m.role ~ m.content }}<|im_end|>{% endfor %}",
		`must begin with an added token`:    "{% for m in messages %}{{ m.role ~ m.content }} end{% endfor %}" + end,
		"the template raised: not today":    "{{ raise_exception('not today') }}",
		"cannot call strftime_now":          "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}" + end,
		`expected "userone<|im_end|>assist`: "{% for m in messages %}{{ m.role ~ m.content }}{% if messages|length > 3 %}!{% endif %}<|im_end|>{% endfor %}" + end,
	} {
		_, err := withTemplate(t, template, nil)
		testkit.Error(t, err, ErrUnsupported, want)
	}
}

// Rendering piece by piece gives the text, and the tokens, of the whole.
func TestPiecewiseRenderingIsTheWhole(t *testing.T) {
	tok, _ := loadRecorded(t)
	chats := []*Chat{chatOf(t, tinyTemplate), chatOf(t, alternating)}
	own, err := tok.Chat(nil)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(11, 12))
	word := func() string {
		return []string{"go", " left", "\n", "<answer>Up</answer>", "", "é", "box ", "12"}[rng.IntN(8)]
	}
	for _, c := range append(chats, own) {
		end, _ := c.EndOfTurn()
		for range 200 {
			var history []Message
			if c.hasSystem && rng.IntN(2) == 0 {
				history = append(history, Text(RoleSystem, word()+word()))
			}
			var whole strings.Builder
			var tokens []int32
			add := func(text string) {
				whole.WriteString(text)
				ids, err := tok.Encode(text)
				require.NoError(t, err)
				tokens = append(tokens, ids...)
			}
			for turn := range 1 + rng.IntN(4) {
				user := Text(RoleUser, word()+word())
				if c.image != "" && rng.IntN(2) == 0 {
					user = withImage(RoleUser, word(), word())
				}
				fresh := []Message{user}
				if turn == 0 {
					fresh = append(history, user)
				}
				var text string
				var err error
				if turn == 0 {
					text, err = c.Open(fresh)
				} else {
					text, err = c.Continue(fresh, Ending(strings.HasSuffix(whole.String(), end)))
				}
				require.NoError(t, err)
				add(text)
				if turn == 0 {
					history = fresh
				} else {
					history = append(history, user)
				}
				want := opened(t, c, history...)
				require.Equal(t, want, whole.String())
				if _, ok := tok.added[end]; ok {
					wantTokens, err := tok.Encode(want)
					require.NoError(t, err)
					require.Equal(t, wantTokens, tokens, "%q", want)
				}
				response := "Up" + word() // a leading line break would join the prompt's when tokenised as a whole
				history = append(history, Text(RoleAssistant, response))
				if rng.IntN(3) > 0 {
					response += end
				}
				add(response)
			}
		}
	}
}

func TestContinueEndsATurnThatTheModelDidNot(t *testing.T) {
	c := chatOf(t, tinyTemplate)
	next := []Message{Text(RoleUser, "on")}
	ended, err := c.Continue(next, EndedTurn)
	require.NoError(t, err)
	open, err := c.Continue(next, CutOff)
	require.NoError(t, err)
	require.Equal(t, "\n<|im_start|>user\non<|im_end|>\n<|im_start|>assistant\n", ended)
	require.Equal(t, "<|im_end|>"+ended, open)
	none, err := c.Continue(nil, EndedTurn)
	require.NoError(t, err)
	require.Equal(t, "\n<|im_start|>assistant\n", none)
}

func TestRenderRefuses(t *testing.T) {
	c := chatOf(t, tinyTemplate)
	for want, messages := range map[string][]Message{
		`message 0: text cannot be encoded: role "robot"`: {Text("robot", "x")},
		"message 1: text cannot be encoded: a system":     {Text(RoleUser, "x"), Text(RoleSystem, "y")},
		"an image in a system message":                    {withImage(RoleSystem, "", "")},
		"an image in a assistant message":                 {Text(RoleUser, "x"), withImage(RoleAssistant, "", "")},
		"text contains <|image_pad|>":                     {Text(RoleUser, "x<|image_pad|>")},
	} {
		_, err := c.Open(messages)
		testkit.Error(t, err, ErrText, want)
	}
	split := Message{Role: RoleUser, Parts: []Part{{Text: "<|image"}, {Text: "_pad|>"}}}
	_, err := c.Open([]Message{split})
	require.ErrorIs(t, err, ErrText, "put together from parts")
	_, err = c.Continue([]Message{Text(RoleSystem, "x")}, EndedTurn)
	require.ErrorIs(t, err, ErrText)
}

func TestMarkedMessages(t *testing.T) {
	m, err := Marked(RoleUser, "<image>see<image>", "<image>", 2)
	require.NoError(t, err)
	require.Equal(t, withImage(RoleUser, "", "see", ""), m)
	m, err = Marked(RoleUser, "plain", "<image>", 0)
	require.NoError(t, err)
	require.Equal(t, Text(RoleUser, "plain"), m)
	_, err = Marked(RoleUser, "<image>", "<image>", 2)
	testkit.Error(t, err, ErrText, "1 marks")
	m, err = Marked(RoleUser, "", "<image>", 0)
	require.NoError(t, err)
	require.Equal(t, "", m.text(""))
}

func TestExpandImages(t *testing.T) {
	tok := tiny(t)
	pad := tok.Special().ImagePad
	got, err := tok.ExpandImages([]int32{9}, []int32{1, pad, 2, pad}, []int{3, 1})
	require.NoError(t, err)
	require.Equal(t, []int32{9, 1, pad, pad, pad, 2, pad}, got)
	for want, counts := range map[string][]int{
		"token 3 is one placeholder too many": {3},
		"2 image placeholders for 3 images":   {3, 1, 1},
		"image 1 has 0 tokens":                {3, 0},
	} {
		_, err := tok.ExpandImages(nil, []int32{1, pad, 2, pad}, counts)
		testkit.Error(t, err, ErrText, want)
	}
}

func TestTemplateIsFoundWhereTransformersLooks(t *testing.T) {
	q := func(s string) []byte { return []byte(mustJSON(map[string]any{"chat_template": s})) }
	named := []byte(mustJSON(map[string]any{"chat_template": []any{
		map[string]any{"name": "tool_use", "template": "t"}, map[string]any{"name": "default", "template": "d"}}}))
	for want, all := range map[string]files{
		"jinja":  {jinjaFile: []byte("jinja"), templateFile: q("json"), configFile: q("config")},
		"json":   {templateFile: q("json"), configFile: q("config")},
		"config": {configFile: q("config")},
		"d":      {configFile: named},
		"":       {configFile: []byte(`{"chat_template":null}`)},
	} {
		cfg, err := readConfig(all)
		require.NoError(t, err, want)
		require.Equal(t, want, cfg.template)
	}
	for _, bad := range []string{`{"chat_template":5}`, `{"chat_template":[{"name":"x","template":"y"}]}`} {
		_, err := readConfig(files{configFile: []byte(bad)})
		require.ErrorIs(t, err, ErrFormat, bad)
	}
	_, err := readConfig(files{jinjaFile: []byte("caf\xe9")})
	testkit.Error(t, err, ErrFormat, "chat_template.jinja")
}

// A template is refused or gives a Chat that can render.
func FuzzChat(f *testing.F) {
	for _, s := range []string{tinyTemplate, trimming, alternating, thinking} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, template string) {
		if len(template) > 3000 {
			return
		}
		c, err := withTemplate(t, template, nil)
		if err != nil {
			return
		}
		if _, err := c.Open([]Message{Text(RoleUser, "x")}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Continue([]Message{Text(RoleUser, "x")}, EndedTurn); err != nil {
			t.Fatal(err)
		}
	})
}

// gemma is Gemma 3's template with the tokens of the tiny tokenizer.
const gemma = `{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<|image_pad|>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<|stop|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
`

// TestASystemTextIsMergedIntoTheUsersFirstMessage as by the template. The expected texts are
// those of jinja2 3.1.6.
func TestASystemTextIsMergedIntoTheUsersFirstMessage(t *testing.T) {
	c := chatOf(t, gemma)
	system, rest := Text(RoleSystem, " Be brief. "), []Message{Text(RoleAssistant, "two"), Text(RoleUser, "three")}
	const after = "<|stop|>\n<start_of_turn>model\ntwo<|stop|>\n<start_of_turn>user\nthree<|stop|>\n<start_of_turn>model\n"
	got := opened(t, c, append([]Message{system, Text(RoleUser, " one\n")}, rest...)...)
	require.Equal(t, "<|start|><start_of_turn>user\n Be brief. \n\none"+after, got)
	got = opened(t, c, append([]Message{Text(RoleUser, "one")}, rest...)...)
	require.Equal(t, "<|start|><start_of_turn>user\none"+after, got)
	for _, alone := range [][]Message{{system}, {system, Text(RoleAssistant, "a")}} {
		_, err := c.Open(alone)
		require.ErrorIs(t, err, ErrText)
	}
	_, err := c.Open([]Message{system})
	require.ErrorContains(t, err, "no user message follows the system message")
	// Into the last message, as Mistral's template does, is no concatenation.
	c = chatOf(
		t,
		`{% if messages[0].role == 'system' %}{% set s = messages[0].content ~ '\n' %}{% set messages = messages[1:] %}{% endif %}`+
			`{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ (s if loop.last and m.role == 'user') ~ m.content ~ '<|stop|>' }}{% endfor %}`+
			`{% if add_generation_prompt %}<assistant>{% endif %}`,
	)
	_, err = c.Open([]Message{system, Text(RoleUser, "a")})
	require.ErrorContains(t, err, "does not support a system message")
}
