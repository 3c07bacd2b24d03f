package chat

import (
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/field"
)

// Validate returns all errors of the options. It does not look for the key.
func (o *Options) Validate() error {
	f := field.Options("chat", nil)
	p, known := providers[o.API]
	if !known {
		f.Bad("API", "%q is not one of %v", o.API, slices.Sorted(maps.Keys(providers)))
	}
	switch {
	case o.Model == "":
		f.Bad("Model", "is empty")
	case strings.ContainsFunc(o.Model, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("?#%", r)
	}) || strings.Contains(o.Model, ".."):
		f.Bad("Model", "%q has white space, control characters, ?, #, %% or .., which are not allowed", o.Model)
	}
	o.checkAddress(f)
	f.Struct(o, "")
	if o.MaxDelay < o.Backoff {
		f.Bad("MaxDelay", "%v is below {Backoff}, %v", o.MaxDelay, o.Backoff)
	}
	o.checkMoney(f)
	o.Pictures.check(f, o.API)
	for i, stop := range o.Stop {
		if strings.TrimSpace(stop) == "" {
			f.Bad("Stop", "entry %d is empty", i)
		}
	}
	if known {
		o.checkFields(f, p)
	}
	return f.Err()
}

// checkAddress checks the address and the headers, so that a key
// is not sent to a wrong address or stored in options.
func (o *Options) checkAddress(f *field.Checks) {
	if o.BaseURL != "" {
		u, err := url.Parse(o.BaseURL)
		switch {
		case err != nil:
			f.Bad("BaseURL", "is not a URL; it is not shown because it may contain a password")
		case u.User != nil:
			f.Bad("BaseURL", "contains a user or a password; set the key in an environment variable, see {KeyEnv}")
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			f.Bad("BaseURL", "%q is not of the form https://host/v1", o.BaseURL)
		case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
			f.Bad("BaseURL", "ends in a query or a fragment")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		switch http.CanonicalHeaderKey(name) {
		case "Authorization", "Proxy-Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie":
			f.Bad("Header", "%s carries a key; set the key in an environment variable, see {KeyEnv}", name)
		case "Content-Type", "Content-Length", "Host", "":
			f.Bad("Header", "%q is set by the package itself", name)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }) {
			f.Bad("Header", "%q is not a valid header name", name)
		}
		if strings.ContainsFunc(o.Header[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			f.Bad("Header", "the value of %q has control characters", name)
		}
	}
}

func (o *Options) checkMoney(f *field.Checks) {
	for _, model := range slices.Sorted(maps.Keys(o.Prices)) {
		p := o.Prices[model]
		for _, x := range []float64{p.Prompt, p.Completion, p.CacheRead, p.CacheWrite} {
			if !(x >= 0 && x <= math.MaxFloat32) {
				f.Bad("Prices", "%q has a price of %v, must be finite and not negative", model, x)
			}
		}
	}
	if _, priced := o.Prices[o.Model]; o.Budget > 0 && !priced {
		f.Bad("Budget", "%v needs a price, but {Prices} has no %q", o.Budget, o.Model)
	}
}

func (p *Pictures) check(f *field.Checks, api API) {
	if p.JPEG < 0 || p.JPEG > 100 {
		f.Bad("Pictures.JPEG", "%d is not in [0, 100]", p.JPEG)
	}
	if p.MaxSide < 0 {
		f.Bad("Pictures.MaxSide", "%d is negative", p.MaxSide)
	}
	switch p.Detail {
	case "":
	case "low", "high", "auto":
		if api != OpenAI {
			f.Bad("Pictures.Detail", "the API %q has no such setting", api)
		}
	default:
		f.Bad("Pictures.Detail", "%q is not low, high or auto", p.Detail)
	}
}

// checkFields checks that the caller's fields of the body do not repeat those that the
// package sends.
func (o *Options) checkFields(f *field.Checks, p provider) {
	d := p.dialect(o)
	switch {
	case o.API != OpenAI && o.MaxTokensField != "":
		f.Bad("MaxTokensField", "is for the API %q alone", OpenAI)
	case !slices.Contains([]string{"", "max_tokens", "max_completion_tokens"}, o.MaxTokensField):
		f.Bad("MaxTokensField", "%q is neither max_tokens nor max_completion_tokens", o.MaxTokensField)
	}
	for i, name := range o.Omit {
		if allowed := d.optional(); !slices.Contains(allowed, name) {
			f.Bad("Omit", "entry %d, %q, is not one of %v", i, name, allowed)
		}
	}
	if o.LogProbs && d.logProbs == "" {
		f.Bad("LogProbs", "the API %q does not return log-probs", o.API)
	}
	if d.stops > 0 && len(o.Stop) > d.stops {
		f.Bad("Stop", "%d texts, the API allows %d", len(o.Stop), d.stops)
	}
	extra, err := plain(o.Extra)
	if err != nil {
		f.Bad("Extra", "%v", err)
		return
	}
	for _, name := range d.reserved {
		if _, ok := extra[name]; ok {
			f.Bad("Extra", "%q is a parameter that this package sets itself; remove it", name)
			delete(extra, name)
		}
	}
	everything := d.params(o, sampling{temperature: 1, topP: 0.5, topK: 1, minP: 0.5, limit: 1})
	if err := merge(d.nest(everything), extra); err != nil {
		f.Bad("Extra", "%v", err)
	}
}
