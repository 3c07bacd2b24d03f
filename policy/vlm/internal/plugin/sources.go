package plugin

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// cpuWheels contain builds of XLA's CPU plugin, 63 MB each, 200 to 270 MB unpacked.
// The first lists its licences and those of its components, but needs the system's
// C++ library; the second includes it.
var cpuWheels = []wheel{
	{"lammps-jax-pjrt-cpu", "0.11.2", "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
		"pjrt_c_api_cpu_plugin.so"},
	{"fastatomstruct-xla-cpu", "2026.6.23", "88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9",
		"libpjrt_cpu.so"},
}

// cudaWheels are JAX's plugin for CUDA 13, of the same XLA as the first CPU wheel, with
// the oldest NVIDIA libraries that it supports: those it was built with, which need the
// oldest driver (580 or newer). 1.9 GB, 2.9 GB unpacked.
var cudaWheels = []wheel{
	{"jax-cuda13-pjrt", "0.11.2", "e5ff589d43064913bb74027682d89639c7ea48f9f81c2bae6fc75117e913f93e",
		"xla_cuda_plugin.so"},
	{"nvidia-cublas", "13.1.2.11", "e1ad7b57879088bc79e31cc172891a64332f76ae733084d4aaaaa65499b9b3de", ""},
	{"nvidia-cuda-cupti", "13.0.85", "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8", ""},
	{"nvidia-cuda-nvcc", "13.0.88", "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03", ""},
	{"nvidia-cuda-nvrtc", "13.0.88", "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575", ""},
	{"nvidia-cuda-runtime", "13.0.96", "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548", ""},
	{"nvidia-cudnn-cu13", "9.12.0.46", "f3befad533e234069eb61ae0d12cb7aa8af0ccf36f28c1d4273cc0005d990de0", ""},
	{"nvidia-cufft", "12.0.0.61", "6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3", ""},
	{"nvidia-cusolver", "12.0.9.81", "5d28371e1301d1edfb15b8b1201e24cd680bc72de7f384cc162c7edbd8c5348c", ""},
	{"nvidia-cusparse", "12.6.3.3", "2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b", ""},
	{"nvidia-nccl-cu13", "2.27.7", "b28a524abd8389b76a4a3f133c76a7aaa7005e47fcaa9d9603b90103927a3f93", ""},
	{"nvidia-nvjitlink", "13.0.88", "13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b", ""},
	{"nvidia-nvshmem-cu13", "3.3.24", "c14d09571697d2e57cb079c8daec88ab1c68cb3586532bfbd4886125a08339b7", ""},
	{"nvidia-nvvm", "13.0.88", "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0", ""},
}

// sources lists where a platform's plugin can be fetched, first choice first, and
// returns the time limit for all attempts together.
func sources(kind Kind, goos, goarch string) ([]source, time.Duration) {
	const forCPU, forCUDA = 20 * time.Minute, time.Hour
	wheels := goos == "linux" && goarch == "amd64"
	switch {
	case kind == CUDA && wheels:
		return []source{{"pinned CUDA wheels by pip (1.9 GB)", bundle(cudaWheels).fetch}}, forCUDA
	case kind != CPU:
		return nil, 0
	}
	var list []source
	switch goos + "/" + goarch {
	case "linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64":
		list = append(list, source{"go-xla's release " + ReleaseVersion, goXLA.fetch})
	}
	if wheels {
		for _, w := range cpuWheels {
			list = append(list, source{fmt.Sprintf("pinned wheel %v by pip (63 MB)", w), w.fetch})
		}
	}
	return list, forCPU
}

// nvidiaDir is the subfolder of the user's folder in which the CUDA plugin finds
// NVIDIA's libraries: it looks in ../nvidia relative to its own folder.
const nvidiaDir = "nvidia"

// CUDAData returns the toolkit folder of an installed CUDA plugin, where XLA finds
// ptxas and libdevice; empty if there is none beside the plugin.
func CUDAData(p Plugin) string {
	base := filepath.Join(filepath.Dir(filepath.Dir(p.Path)), nvidiaDir)
	for _, dir := range []string{filepath.Join(base, "cu13"), base} {
		if _, err := os.Stat(filepath.Join(dir, "bin", "ptxas")); err == nil {
			return dir
		}
	}
	return ""
}

// bundle is a CUDA plugin and the libraries it needs.
type bundle []wheel

// unpack fetches the wheels and unpacks the plugin into a folder below stage/out, and the libraries of that folder.
func (b bundle) unpack(ctx context.Context, s *setup, stage, dir string) (plugin string, err error) {
	files, err := download(ctx, stage, b...)
	if err != nil {
		return "", err
	}
	out := filepath.Join(stage, outDir)
	plugin = filepath.Join(dir, fileName(s.kind, s.goos))
	for i, w := range b {
		err := w.unpack(ctx, files[i], filepath.Join(out, licenseDir), func(in string) string {
			switch {
			case w.library != "" && path.Base(in) == w.library:
				return filepath.Join(out, plugin)
			case dir != "" && strings.HasPrefix(in, dir+"/") && path.Ext(in) != ".py":
				return filepath.Join(out, filepath.FromSlash(in))
			}
			return ""
		})
		if err != nil {
			return "", err
		}
		_ = os.Remove(files[i]) // frees disk space for the next wheel
	}
	return plugin, nil
}

func (b bundle) fetch(ctx context.Context, s *setup, stage string) (fetched, error) {
	name, err := b.unpack(ctx, s, stage, nvidiaDir)
	if err != nil {
		return fetched{}, err
	}
	// cuDNN searches these beside itself, in the layout of CUDA 12.
	for _, old := range []string{"cublas", "cuda_nvrtc"} {
		if err := os.Symlink("cu13", filepath.Join(stage, outDir, nvidiaDir, old)); err != nil {
			return fetched{}, err
		}
	}
	return fetched{plugin: name, source: fmt.Sprintf("wheel %v with %d of NVIDIA, set %s", b[0], len(b)-1,
		fingerprint(b))}, nil
}
