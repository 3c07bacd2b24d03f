package proof

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"vagen/internal/buildinfo"
	"vagen/internal/regular"
)

// Facts are what the result of a run depends on, besides the input files.
type Facts struct {
	Config string         `json:"config"` // SHA-256 of the effective configuration, without secrets
	Seed   uint64         `json:"seed"`
	Build  buildinfo.Info `json:"build"` // of the program

	Processor string   `json:"processor,omitempty"` // model name, where the system reports it
	Family    string   `json:"family,omitempty"`    // vendor and family
	Features  []string `json:"features,omitempty"`  // instruction sets that change how numbers are computed
	Backend   string   `json:"backend,omitempty"`   // such as xla:cpu
	XLAFlags  string   `json:"xla_flags,omitempty"` // environment variable XLA_FLAGS
	Kernels   string   `json:"kernels,omitempty"`   // environment variable VAGEN_KERNELS: 0 is without own kernels
}

// kernelsVariable switches off the kernels of policy/vlm, which compute other last bits than XLA.
const kernelsVariable = "VAGEN_KERNELS"

// NewFacts returns the facts of this process for a configuration, as Config.Stored returns
// it. backend is "" if unknown.
func NewFacts(config []byte, seed uint64, backend string) *Facts {
	f := &Facts{Config: sum(config), Seed: seed, Build: buildinfo.Read(), Features: features(), Backend: backend,
		XLAFlags: os.Getenv("XLA_FLAGS"), Kernels: os.Getenv(kernelsVariable)}
	raw, err := regular.ReadFile("/proc/cpuinfo") // on other systems the processor stays unknown
	if err == nil {
		f.Processor, f.Family = processor(string(raw))
	}
	return f
}

// processor reads model and family of the first processor in Linux's list.
func processor(list string) (model, family string) {
	of := map[string]string{}
	first, _, _ := strings.Cut(list, "\n\n")
	for line := range strings.Lines(first) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			of[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	family = of["vendor_id"] + " " + of["cpu family"]
	if of["CPU implementer"] != "" { // ARM
		family = of["CPU implementer"] + " " + of["CPU part"]
	}
	return of["model name"], strings.TrimSpace(family)
}

// features lists the instruction sets of this processor that numerical code chooses from.
func features() []string {
	x, a := &cpu.X86, &cpu.ARM64
	var out []string
	for name, has := range map[string]bool{
		"avx": x.HasAVX, "avx2": x.HasAVX2, "fma": x.HasFMA, "avx512f": x.HasAVX512F, "avx512bf16": x.HasAVX512BF16,
		"avx512vnni": x.HasAVX512VNNI, "amx-bf16": x.HasAMXBF16,
		"asimd": a.HasASIMD, "asimdhp": a.HasASIMDHP, "sve": a.HasSVE,
	} {
		if has {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// SameMachine reports whether programs with these facts compute the same bits: they agree
// in architecture, processor family, instruction sets, backend, flags of XLA and own kernels. XLA's
// plugin is among the inputs. On GPUs the same bits are not promised.
func (a *Facts) SameMachine(b *Facts) bool { return len(a.MachineDifferences(b)) == 0 }

// Difference is a fact that differs between two runs, or between a run and this process.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// String describes the difference on one line.
func (d Difference) String() string { return fmt.Sprintf("%s: %s → %s", d.What, d.A, d.B) }

// MachineDifferences lists in what the machines differ.
func (a *Facts) MachineDifferences(b *Facts) []Difference {
	b = cmp.Or(b, new(Facts))
	return unequal([]Difference{
		{"platform", a.Build.Platform, b.Build.Platform},
		{"processor family", a.Family, b.Family},
		{"instruction sets", strings.Join(a.Features, " "), strings.Join(b.Features, " ")},
		{"backend", a.Backend, b.Backend},
		{"XLA_FLAGS", a.XLAFlags, b.XLAFlags},
		{kernelsVariable, a.Kernels, b.Kernels},
	})
}

// CodeDifferences lists in what the programs differ.
func (a *Facts) CodeDifferences(b *Facts) []Difference {
	b = cmp.Or(b, new(Facts))
	return unequal([]Difference{
		{"version of vagen", a.Build.Text(), b.Build.Text()},
		{"version of Go", a.Build.Go, b.Build.Go},
	})
}

// unequal keeps the differences between values that differ.
func unequal(all []Difference) []Difference {
	return slices.DeleteFunc(all, func(d Difference) bool { return d.A == d.B })
}
