// Command kube is every server that a Kubernetes cluster needs, in one executable: the name it is run
// under, or else its first argument, selects the component.
//
// One executable because all components share most of their packages. Compiling and linking them once
// takes a third of the time and the space of separate builds, and the node image carries one file.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build information as a metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "tfdist.dev/cluster/internal/dns" // the plugins of CoreDNS
	"tfdist.dev/cluster/internal/nodenet"
	"tfdist.dev/cluster/internal/policy"
	"tfdist.dev/cluster/internal/storage"
)

// components maps a name to what runs under it; each function returns the exit status.
var components = map[string]func() int{
	"coredns":                 runDNS,
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return runCobra(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return runCobra(manager.NewControllerManagerCommand()) },
	"kube-proxy":              func() int { return runCobra(proxy.NewProxyCommand()) },
	"kube-scheduler":          func() int { return runCobra(scheduler.NewSchedulerCommand()) },
	"kubeadm":                 func() int { kubeadmutil.HandleError(kubeadm.Run()); return 0 },
	"kubectl":                 runKubectl,
	"kubelet":                 func() int { return runCobra(kubelet.NewKubeletCommand(context.Background())) },
	"nodenet":                 func() int { return report("nodenet", nodenet.Run) },
	"network-policy":          func() int { return report("network-policy", policy.Run) },
	"storage-provisioner":     func() int { return report("storage-provisioner", storage.Run) },
}

func main() {
	name := filepath.Base(os.Args[0])
	run, known := components[name]
	if !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
		run, known = components[name]
	}
	if !known {
		fmt.Fprintf(os.Stderr, "kube: no component %q; there are %v\n", name, names())
		os.Exit(2)
	}
	if name != "coredns" {
		flag.CommandLine = withoutDNS(name, flag.CommandLine)
	}
	os.Exit(run())
}

// withoutDNS returns the process-wide flags less those that CoreDNS registers when it is imported: Kubernetes
// components merge the process-wide flags, such as cAdvisor's, into their own, which have a --version too.
func withoutDNS(name string, all *flag.FlagSet) *flag.FlagSet {
	kept := flag.NewFlagSet(name, flag.ExitOnError)
	all.VisitAll(func(f *flag.Flag) {
		if !slices.Contains([]string{"conf", "dns.port", "p", "pidfile", "plugins", "quiet", "version"}, f.Name) {
			kept.Var(f.Value, f.Name, f.Usage)
		}
	})
	return kept
}

func names() []string {
	all := make([]string, 0, len(components))
	for name := range components {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func runCobra(command *cobra.Command) int { return cli.Run(command) }

func runDNS() int {
	coremain.Run()
	return 0
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // exits with kubectl's own status
	}
	return 0
}

func report(name string, run func(context.Context) error) int {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
