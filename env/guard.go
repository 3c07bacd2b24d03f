package env

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/nearest"
)

// ErrRefused is wrapped, together with ErrOption, by the error about an option
// that a client may not choose.
var ErrRefused = errors.New("only the operator of the service may set it")

// Guard makes environments from options of which a client chose some and the
// operator of a service the others. Clients choose options of KindNumber and
// KindText. Options of the other kinds, options without a kind and
// undeclared options are the operator's, in nested mappings, too: a client that names
// one gets an error, unless its value is empty or the operator's own.
type Guard struct {
	// Kinds declares the options, see OptionKinds.
	Kinds map[string]OptionKind
	// Fixed are the operator's options. They hold where a client gives none of the
	// same name. A client that chooses an address gets no secret of them.
	Fixed map[string]any
	// Complete says that Kinds has all options that exist, so that others are unknown instead
	// of the operator's. The error about them wraps ErrUnknown instead of ErrRefused.
	Complete bool
	// Allow names options that clients may choose whatever their kind, nested ones
	// with dots.
	Allow []string
}

// Factory returns a factory that takes a client's options and passes f those of
// Merge.
func (g Guard) Factory(f Factory) Factory {
	return func(config map[string]any) (Env, error) {
		merged, err := g.Merge(config)
		if err == nil && f == nil {
			err = errors.New("env: guard: the factory is nil")
		}
		if err != nil {
			return nil, err
		}
		return f(merged)
	}
}

// Merge returns Fixed with a client's options on top. The error names every option
// that the client may not choose and wraps ErrOption and ErrRefused or ErrUnknown.
func (g Guard) Merge(config map[string]any) (map[string]any, error) {
	var faults []error
	merged := g.merge("", g.Fixed, config, &faults)
	return merged, errors.Join(faults...)
}

func (g Guard) merge(prefix string, fixed, config map[string]any, faults *[]error) map[string]any {
	out := make(map[string]any, len(fixed)+len(config))
	maps.Copy(out, fixed)
	address := false // the client chose one
	for _, name := range slices.Sorted(maps.Keys(config)) {
		path, v := prefix+name, config[name]
		kind, declared := g.Kinds[path]
		block, isBlock := v.(map[string]any)
		switch allowed := slices.Contains(g.Allow, path); {
		case reflect.DeepEqual(v, fixed[name]) && v != nil:
		case !allowed && isBlock && g.nested(path):
			below, _ := fixed[name].(map[string]any)
			out[name] = g.merge(path+".", below, block, faults)
		case allowed, declared && kind.open(), !isBlock && g.nested(path):
			address = address || kind == KindAddress
			out[name] = v
		case declared && empty(v):
		default:
			why, hint := ErrRefused, ""
			if !declared {
				hint = nearest.Hint(path, slices.Collect(maps.Keys(g.Kinds)))
				if _, own := fixed[name]; g.Complete && !own && !g.nested(path) {
					why = ErrUnknown
				}
			}
			*faults = append(*faults, fmt.Errorf("env: option %q: %w: %w%s", path, ErrOption, why, hint))
		}
	}
	if address {
		g.dropSecrets(prefix, out, config)
	}
	return out
}

// dropSecrets removes the secrets that are not the client's own from merged options, in
// nested mappings, too.
func (g Guard) dropSecrets(prefix string, out, config map[string]any) {
	for name, v := range out {
		if below, ok := v.(map[string]any); ok && g.nested(prefix+name) {
			own, _ := config[name].(map[string]any)
			below = maps.Clone(below)
			g.dropSecrets(prefix+name+".", below, own)
			out[name] = below
			continue
		}
		if _, own := config[name]; !own && g.Kinds[prefix+name] == KindSecret {
			delete(out, name)
		}
	}
}

// nested reports whether options are declared below a name.
func (g Guard) nested(path string) bool {
	for name := range g.Kinds {
		if strings.HasPrefix(name, path+".") {
			return true
		}
	}
	return false
}

// empty reports whether a value has no effect.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return false
}
