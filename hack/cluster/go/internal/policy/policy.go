// Package policy enforces NetworkPolicy on one node with kube-router's firewall, next to any pod network.
//
// Only the firewall of kube-router is imported, as k3s does: its router and service proxy would bring BGP and
// cloud libraries, and minutes of compile time. The firewall needs iptables, ipset and the capabilities NET_ADMIN
// and NET_RAW. When it stops, rules stay in force; pods that start meanwhile are open until it is back.
package policy

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	heartbeats  = 10 // buffered beats; the controller drops what does not fit
	syncTimeout = time.Minute
)

// Run enforces policies for the pods of NODE_NAME until ctx ends. Flags are kube-router's own.
func Run(ctx context.Context) error {
	config, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	cluster, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return err
	}
	health, err := healthcheck.NewHealthController(config)
	if err != nil {
		return err
	}
	return enforce(ctx, client, config, health)
}

func parse(arguments []string) (*options.KubeRouterConfig, error) {
	config := options.NewKubeRouterConfig()
	flags := pflag.NewFlagSet("network-policy", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	config.EnableIPv6 = false // the clusters made here have IPv4 pods only
	// The health endpoint expects heartbeats of every part that is configured to run.
	config.RunFirewall, config.RunRouter, config.RunServiceProxy, config.RunLoadBalancer = true, false, false, false
	if config.HostnameOverride == "" {
		config.HostnameOverride = os.Getenv("NODE_NAME")
	}
	return config, nil
}

// enforce connects the controller to the informers, and runs it and its health endpoint.
func enforce(
	ctx context.Context, client kubernetes.Interface, config *options.KubeRouterConfig, health *healthcheck.HealthController,
) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	if err := waitForSync(ctx, pods, namespaces, policies); err != nil {
		return err
	}
	iptables, ipsets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return fmt.Errorf("iptables: %w", err)
	}
	var locked sync.Mutex // serialises changes of ipsets
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &locked, iptables, ipsets)
	if err != nil {
		return err
	}
	if err := subscribe(controller, pods, namespaces, policies); err != nil {
		return err
	}
	beats := make(chan *healthcheck.ControllerHeartbeat, heartbeats)
	health.SetAlive()
	var running sync.WaitGroup
	running.Add(3) // each of the three calls Done
	go health.RunServer(ctx.Done(), &running)
	go health.RunCheck(beats, ctx.Done(), &running)
	go controller.Run(beats, ctx.Done(), &running)
	running.Wait()
	return ctx.Err()
}

func waitForSync(ctx context.Context, informers ...cache.SharedIndexInformer) error {
	limited, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for _, informer := range informers {
		if !cache.WaitForCacheSync(limited.Done(), informer.HasSynced) {
			return fmt.Errorf("the API server did not answer within %s", syncTimeout)
		}
	}
	return nil
}

func subscribe(controller *netpol.NetworkPolicyController, pods, namespaces, policies cache.SharedIndexInformer) error {
	for _, pair := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{pods, controller.PodEventHandler},
		{namespaces, controller.NamespaceEventHandler},
		{policies, controller.NetworkPolicyEventHandler},
	} {
		if _, err := pair.informer.AddEventHandler(pair.handler); err != nil {
			return err
		}
	}
	return nil
}
