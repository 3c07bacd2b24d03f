#include "register.h"

#include <dlfcn.h>
#include <string.h>

#include "abi.h"
#include "attend.h"
#include "block.h"
#include "choose.h"
#include "gemm.h"
#include "rule.h"
#include "scores.h"
#include "team.h"
#include "whole.h"

static failure *fail(const call *c, const char *why) {
	failure_args a = {sizeof a, NULL, why, 13};
	return c->api->fail(&a);
}

// asked answers when the call only asks for the version of the interface that this was
// built for. What is used here has been the same in all of version 0.
static int asked(const call *c) {
	for (extension *e = c->extensions; e; e = e->next)
		if (e->type == EXTENSION_METADATA) {
			metadata_extension *m = (metadata_extension *)e;
			m->metadata->version.major = c->api->version.major;
			m->metadata->version.minor = c->api->version.minor;
			m->metadata->traits = 0;
			return 1;
		}
	return c->stage != STAGE_EXECUTE;
}

static const void *attribute(const call *c, const char *name) {
	for (int64_t i = 0; i < c->config.n; i++) {
		const span *s = c->config.names[i];
		if (c->config.kinds[i] == ATTRIBUTE_SCALAR && s->length == strlen(name) && !memcmp(s->text, name, s->length))
			return ((const scalar *)c->config.of[i])->value;
	}
	return NULL;
}

// reader hands out the buffers of a call one after the other.
typedef struct {
	const buffers *of;
	int64_t at;
	int bad; // one was missing, or of another type or rank
} reader;

static buffer *next(reader *r, int32_t type, int64_t rank) {
	static int64_t no_dims[4];
	static buffer none = {.dims = no_dims};
	if (r->at >= r->of->n || r->of->of[r->at]->type != type || r->of->of[r->at]->rank != rank) {
		r->bad = 1;
		return &none;
	}
	return r->of->of[r->at++];
}

static const float *floats(reader *r, int64_t rank) { return next(r, TYPE_F32, rank)->data; }

// weights is a matrix in any of the types.
static weight weights(reader *r) {
	int32_t type = r->at < r->of->n ? r->of->of[r->at]->type : TYPE_F32;
	if (type == TYPE_F32) {
		buffer *b = next(r, type, 2);
		return (weight){b->data, type, b->dims[1]};
	}
	buffer *b = next(r, type, 3);
	r->bad |= (type != TYPE_BF16 && type != TYPE_S8) || b->dims[2] != PANEL;
	return (weight){b->data, type, type == TYPE_S8 ? b->dims[1] - SCALES : b->dims[1]};
}

static stretch cache(reader *r) {
	buffer *k = next(r, TYPE_F32, 4), *v = next(r, TYPE_F32, 4), *allow = next(r, TYPE_PRED, 2);
	return (stretch){k->data, v->data, allow->data, k->dims[2]};
}

// returned gives a part of the cache that has been written to as a result. XLA makes
// result and argument one, so there is nothing to copy.
static void returned(reader *out, stretch *s, int64_t numbers) {
	float **of[] = {&s->k, &s->v};
	for (int i = 0; i < 2; i++) {
		float *to = next(out, TYPE_F32, 4)->data;
		if (to && to != *of[i])
			memcpy(to, *of[i], numbers * sizeof *to);
		*of[i] = to;
	}
}

static failure *on_block(call *c) {
	if (asked(c))
		return NULL;
	const float *eps = attribute(c, "eps");
	const int64_t *has = attribute(c, "has");
	if (!eps || !has)
		return fail(c, "vagen: a block's attributes are missing");
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *x = next(&in, TYPE_F32, 2);
	block b = {.eps = *eps, .x = x->data, .rows = x->dims[0], .hidden = x->dims[1]};
	b.cos = floats(&in, 2);
	b.sin = floats(&in, 2);
	b.past = cache(&in);
	buffer *keys = in.at < in.of->n ? in.of->of[in.at] : x;
	b.recent = cache(&in);
	b.apart = in.at < in.of->n && in.of->of[in.at]->rank == 1;
	const int32_t *at = next(&in, TYPE_S32, b.apart)->data;
	b.norm1 = floats(&in, 1);
	b.qkv = weights(&in);
	if (*has & HAS_QKV_BIAS)
		b.qkv_b = floats(&in, 1);
	if (*has & HAS_QK_NORM) {
		b.q_norm = floats(&in, 1);
		b.k_norm = floats(&in, 1);
	}
	b.out = weights(&in);
	if (*has & HAS_OUT_BIAS)
		b.out_b = floats(&in, 1);
	b.norm2 = floats(&in, 1);
	b.up = weights(&in);
	if (*has & HAS_MLP_BIAS)
		b.up_b = floats(&in, 1);
	b.down = weights(&in);
	if (*has & HAS_MLP_BIAS)
		b.down_b = floats(&in, 1);
	b.y = next(&out, TYPE_F32, 2)->data;
	int64_t lines = keys->rank == 4 ? keys->dims[0] : 0;
	if (in.bad || out.bad || in.at != in.of->n || lines < 1 || b.rows % lines)
		return fail(c, "vagen: a block's arguments are not what they should be");
	b.each = b.rows / lines;
	b.kv = keys->dims[1];
	b.dim = keys->dims[3];
	b.heads = b.out.in / b.dim;
	b.ff = b.down.in;
	returned(&out, &b.recent, lines * b.kv * b.recent.length * b.dim);
	if (out.bad)
		return fail(c, "vagen: a block's results are not what they should be");
	// XLA, too, moves a slot that is out of range into it.
	int32_t one = b.apart || *at >= 0 ? *at : 0;
	if (one >= b.recent.length)
		one = b.recent.length - 1;
	b.at = b.apart ? at : &one;
	const char *why = block_run(&b);
	return why ? fail(c, why) : NULL;
}

// real reads which of n tokens are real, null if there is no such input.
static const uint8_t *real(reader *in, int64_t n) {
	if (in->at == in->of->n)
		return NULL;
	buffer *b = next(in, TYPE_PRED, 2);
	in->bad |= b->dims[0] * b->dims[1] != n;
	return b->data;
}

static failure *on_opening(call *c) {
	if (asked(c))
		return NULL;
	const float *eps = attribute(c, "eps");
	const int64_t *has = attribute(c, "has");
	if (!eps || !has)
		return fail(c, "vagen: an opening's attributes are missing");
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *x = next(&in, TYPE_F32, 2);
	opening o = {.n = x->dims[0], .hidden = x->dims[1], .heads.eps = *eps, .x = x->data};
	o.cos = floats(&in, 2);
	o.sin = floats(&in, 2);
	o.norm = floats(&in, 1);
	o.qkv = floats(&in, 2);
	if (*has & HAS_QKV_BIAS)
		o.qkv_b = floats(&in, 1);
	if (*has & HAS_QK_NORM) {
		o.heads.q_norm = floats(&in, 1);
		o.heads.k_norm = floats(&in, 1);
	}
	o.real = real(&in, o.n);
	buffer *q = next(&out, TYPE_F32, 4), *k = next(&out, TYPE_F32, 4), *v = next(&out, TYPE_F32, 4);
	if (out.at < out.of->n)
		o.kept = next(&out, TYPE_F32, 2)->data;
	if (in.bad || out.bad || in.at != in.of->n || k->dims[0] * k->dims[2] != o.n)
		return fail(c, "vagen: an opening's arguments are not what they should be");
	o.q = q->data, o.k = k->data, o.v = v->data;
	o.length = k->dims[2];
	o.heads.kv = k->dims[1], o.heads.dim = k->dims[3];
	o.heads.heads = q->dims[1] * q->dims[2] / o.length;
	return opening_run(&o) ? NULL : fail(c, "vagen: an opening finds no memory");
}

static failure *on_closing(call *c) {
	if (asked(c))
		return NULL;
	const float *eps = attribute(c, "eps");
	const int64_t *has = attribute(c, "has");
	if (!eps || !has)
		return fail(c, "vagen: a closing's attributes are missing");
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *x = next(&in, TYPE_F32, 2);
	int flat = in.at < in.of->n && in.of->of[in.at]->rank == 2; // heads of a token are one row
	buffer *attended = next(&in, TYPE_F32, flat ? 2 : 4);
	closing s = {.n = x->dims[0], .hidden = x->dims[1], .eps = *eps, .x = x->data, .attended = attended->data};
	s.plus = *has & HAS_PLUS_ONE ? 1 : 0;
	buffer *w = next(&in, TYPE_F32, 2);
	s.out = w->data;
	if (*has & HAS_OUT_BIAS)
		s.out_b = floats(&in, 1);
	s.norm = floats(&in, 1);
	s.up = floats(&in, 2);
	if (*has & HAS_MLP_BIAS)
		s.up_b = floats(&in, 1);
	buffer *down = next(&in, TYPE_F32, 2);
	s.down = down->data;
	if (*has & HAS_MLP_BIAS)
		s.down_b = floats(&in, 1);
	s.real = real(&in, s.n);
	s.y = next(&out, TYPE_F32, 2)->data;
	if (out.at < out.of->n) {
		s.mid = next(&out, TYPE_F32, 2)->data;
		s.sums = next(&out, TYPE_F32, 2)->data;
	}
	if (in.bad || out.bad || in.at != in.of->n)
		return fail(c, "vagen: a closing's arguments are not what they should be");
	s.ff = down->dims[1];
	s.dim = attended->dims[flat ? 1 : 3];
	s.heads = w->dims[1] / s.dim;
	s.length = flat ? 1 : attended->dims[1] * attended->dims[2] / s.heads;
	return closing_run(&s) ? NULL : fail(c, "vagen: a closing finds no memory");
}

static failure *on_delta(call *c) {
	if (asked(c))
		return NULL;
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *q = next(&in, TYPE_F32, 3);
	delta d = {.q = q->data, .rows = q->dims[0], .heads = q->dims[1], .key = q->dims[2]};
	d.k = floats(&in, 3);
	buffer *v = next(&in, TYPE_F32, 3);
	d.v = v->data;
	d.value = v->dims[2];
	d.beta = floats(&in, 2);
	d.g = floats(&in, 2);
	d.live = next(&in, TYPE_PRED, 1)->data;
	const float *state = floats(&in, 4);
	d.o = next(&out, TYPE_F32, 3)->data;
	d.state = next(&out, TYPE_F32, 4)->data;
	if (in.bad || out.bad || in.at != in.of->n)
		return fail(c, "vagen: the arguments of a delta rule's step are not what they should be");
	// XLA makes result and argument one, so there is nothing to copy.
	if (d.state != state)
		memcpy(d.state, state, d.rows * d.heads * d.key * d.value * sizeof *state);
	delta_run(&d);
	return NULL;
}

// on_rule is forward without the gradient of the outputs, from states of zero or from given ones, and backward with it.
static failure *on_rule(call *c) {
	if (asked(c))
		return NULL;
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *q = next(&in, TYPE_F32, 4);
	rule r = {.q = q->data, .groups = q->dims[0], .length = q->dims[1], .heads = q->dims[2], .key = q->dims[3]};
	r.k = floats(&in, 4);
	buffer *v = next(&in, TYPE_F32, 4);
	r.v = v->data;
	r.value = v->dims[3];
	r.beta = floats(&in, 3);
	r.g = floats(&in, 3);
	r.segment = next(&in, TYPE_S32, 2)->data;
	if (in.at + 1 < in.of->n) {
		r.states = next(&in, TYPE_F32, 5)->data;
		r.by_o = floats(&in, 4);
		float **by[] = {&r.by_q, &r.by_k, &r.by_v, &r.by_beta, &r.by_g};
		for (int i = 0; i < 5; i++)
			*by[i] = next(&out, TYPE_F32, i < 3 ? 4 : 3)->data;
	} else {
		r.o = next(&out, TYPE_F32, 4)->data;
		if (in.at < in.of->n) {
			r.start = floats(&in, 4);
			r.end = next(&out, TYPE_F32, 4)->data;
		} else if (out.at < out.of->n)
			r.states = next(&out, TYPE_F32, 5)->data;
	}
	if (in.bad || out.bad || in.at != in.of->n || out.at != out.of->n)
		return fail(c, "vagen: the arguments of a delta rule are not what they should be");
	return rule_run(&r) ? NULL : fail(c, "vagen: a delta rule finds no memory");
}

static failure *on_attention(call *c) {
	if (asked(c))
		return NULL;
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *q = next(&in, TYPE_F32, 4), *k = next(&in, TYPE_F32, 4);
	attention a = {.groups = q->dims[0], .heads = q->dims[1], .queries = q->dims[2], .length = q->dims[2],
	               .keys = k->dims[2], .dim = q->dims[3], .q = q->data, .k = k->data, .v = floats(&in, 4)};
	if (in.at < in.of->n) {
		buffer *mask = next(&in, TYPE_PRED, 3);
		a.mask = mask->data, a.length = mask->dims[1];
	}
	a.o = next(&out, TYPE_F32, 4)->data;
	if (in.bad || out.bad || in.at != in.of->n)
		return fail(c, "vagen: the arguments of attention are not what they should be");
	return attention_run(&a) ? NULL : fail(c, "vagen: attention finds no memory");
}

static failure *on_product(call *c) {
	if (asked(c))
		return NULL;
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *x = next(&in, TYPE_F32, 2);
	weight w = weights(&in);
	buffer *y = next(&out, TYPE_F32, 2);
	const int64_t *as = attribute(c, "as");
	if (in.bad || out.bad || w.in != x->dims[1])
		return fail(c, "vagen: a product's arguments are not what they should be");
	int made = product(x->data, &w, y->data, x->dims[0], y->dims[1], as ? *as : x->dims[0]);
	return made ? NULL : fail(c, "vagen: a product finds no memory");
}

// on_gemm multiplies matrices that sum over axes left and right.
static failure *on_gemm(call *c) {
	if (asked(c))
		return NULL;
	const int64_t *left = attribute(c, "left"), *right = attribute(c, "right");
	if (!left || !right)
		return fail(c, "vagen: a matrix product's attributes are missing");
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *x = next(&in, TYPE_F32, 2), *w = next(&in, TYPE_F32, 2), *y = next(&out, TYPE_F32, 2);
	int64_t k = x->dims[*left != 0], m = x->dims[*left == 0], n = w->dims[*right == 0];
	if (in.bad || out.bad || in.at != in.of->n || w->dims[*right != 0] != k)
		return fail(c, "vagen: a matrix product's arguments are not what they should be");
	matrix a = *left ? (matrix){x->data, k, 1} : (matrix){x->data, 1, m};
	matrix b = *right ? (matrix){w->data, 1, k} : (matrix){w->data, n, 1};
	return gemm(a, b, y->data, m, n, k) ? NULL : fail(c, "vagen: a matrix product finds no memory");
}

static failure *on_scores(call *c) {
	if (asked(c))
		return NULL;
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *x = next(&in, TYPE_F32, 2), *table = next(&in, TYPE_F32, 2);
	scores s = {.n = x->dims[0], .hidden = x->dims[1], .vocabulary = table->dims[0], .x = x->data, .table = table->data};
	s.target = next(&in, TYPE_S32, 1)->data;
	const float *temperature = floats(&in, 0);
	s.log_prob = next(&out, TYPE_F32, 1)->data;
	s.entropy = next(&out, TYPE_F32, 1)->data;
	if (in.bad || out.bad)
		return fail(c, "vagen: a head's arguments are not what they should be");
	s.temperature = *temperature;
	return scores_run(&s) ? NULL : fail(c, "vagen: a head finds no memory");
}

static failure *on_choice(call *c) {
	if (asked(c))
		return NULL;
	const int64_t *has = attribute(c, "has");
	if (!has)
		return fail(c, "vagen: a choice's attribute is missing");
	reader in = {.of = &c->args}, out = {.of = &c->results};
	buffer *logits = next(&in, TYPE_F32, 2);
	choice s = {.has = *has, .n = logits->dims[0], .vocabulary = logits->dims[1], .logits = logits->data};
	s.seeds = next(&in, TYPE_U32, 2)->data;
	s.count = next(&in, TYPE_U32, 1)->data;
	s.params = floats(&in, 1);
	if (s.has & HAS_NEVER) {
		buffer *never = next(&in, TYPE_S32, 1);
		s.never = never->data, s.nevers = never->dims[0];
	}
	if (s.has & HAS_FORCED)
		s.forced = next(&in, TYPE_S32, 1)->data;
	s.id = next(&out, TYPE_S32, 1)->data;
	s.log_prob = next(&out, TYPE_F32, 1)->data;
	if (in.bad || out.bad || in.at != in.of->n)
		return fail(c, "vagen: a choice's arguments are not what they should be");
	return choice_run(&s) ? NULL : fail(c, "vagen: a choice finds no memory");
}

int fused_able(void) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
	return 1;
#endif
}

static const char host[] = "Host";

// about_size takes an error, and reports whether it is that a struct is too short.
static int about_size(const pjrt_api *api, pjrt_error *e) {
	pjrt_message_args m = {.size = sizeof m, .error = e};
	api->message(&m);
	static const char size[] = "size";
	int found = 0;
	for (size_t i = 0; !found && i + strlen(size) <= m.length; i++)
		found = !memcmp(m.message + i, size, strlen(size));
	pjrt_error_args gone = {sizeof gone, NULL, e};
	api->destroy_error(&gone);
	return found;
}

// add makes a function known under a name, in the way of newer plugins, or else in that
// of older ones, for which the newer struct is too short.
static int add(const pjrt_api *api, const ffi_extension *ffi, const char *name, failure *(*f)(call *)) {
	register_args a = {offsetof(register_args, traits) + sizeof a.traits, name, strlen(name), (void *)f, host, strlen(host), 0};
	pjrt_error *e = ffi->register_function(&a);
	if (!e)
		return 1;
	if (!about_size(api, e))
		return 0;
	register_args_2 b = {offsetof(register_args_2, traits) + sizeof b.traits, name, strlen(name), 1, (void *)f, host, strlen(host), 0};
	e = ffi->register_function(&b);
	if (e)
		about_size(api, e);
	return !e;
}

const char *fused_register(const char *path, const char *const *names, int threads) {
	void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	if (!plugin)
		return "the plugin is not loaded";
	const pjrt_api *(*get)(void) = (const pjrt_api *(*)(void))dlsym(plugin, "GetPjrtApi");
	if (!get)
		return "the plugin has no GetPjrtApi";
	const pjrt_api *api = get();
	for (extension *e = api->extensions; e; e = e->next) {
		if (e->type != EXTENSION_FFI || e->size < sizeof(ffi_extension))
			continue;
		const ffi_extension *ffi = (const ffi_extension *)e;
		failure *(*functions[])(call *) = {on_block, on_delta, on_rule, on_product, on_scores, on_attention,
		                                   on_choice, on_gemm, on_opening, on_closing};
		for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
			if (!add(api, ffi, names[i], functions[i]))
				return "the plugin refuses functions";
		team_start(threads);
		return NULL;
	}
	return "the plugin takes no functions";
}
