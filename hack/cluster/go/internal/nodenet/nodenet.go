// Package nodenet is the pod network of a cluster whose nodes share one link, as kind's nodes do.
//
// On its node it writes the CNI configuration, keeps one route to the pod range of every other node, and
// masquerades what pods send out of the cluster. Traffic between pods is never translated, so that
// NetworkPolicy sees true addresses. Every pass states the whole wanted configuration; a pass that fails is
// repeated, and nothing is remembered but what has been applied.
package nodenet

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const interval = 2 * time.Second

type network struct {
	node    string     // name of the node this runs on
	cluster *net.IPNet // range of all pods
	client  kubernetes.Interface
	applied string // pod range of this node that is configured
}

// Run keeps the network of this node until ctx ends. It reads NODE_NAME, POD_SUBNET and, where the address
// of the API server in the cluster cannot work before the network does, CONTROL_PLANE_ENDPOINT.
func Run(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if endpoint := os.Getenv("CONTROL_PLANE_ENDPOINT"); endpoint != "" {
		config.Host = "https://" + strings.TrimPrefix(endpoint, "https://")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, cluster, err := net.ParseCIDR(os.Getenv("POD_SUBNET"))
	if err != nil {
		return fmt.Errorf("POD_SUBNET: %w", err)
	}
	n := &network{node: os.Getenv("NODE_NAME"), cluster: cluster, client: client}
	for {
		if err := n.reconcile(ctx); err != nil {
			log.Printf("nodenet: %v; trying again", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
	}
}

// reconcile makes the routes and the configuration of this node what the list of nodes asks for.
func (n *network) reconcile(ctx context.Context) error {
	nodes, err := n.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var failed []error
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Spec.PodCIDR == "" {
			continue // not assigned yet; the next pass sees it
		}
		if node.Name == n.node {
			failed = append(failed, n.configure(node.Spec.PodCIDR))
		} else {
			failed = append(failed, route(node))
		}
	}
	return errors.Join(failed...)
}

// configure announces the pod range of this node to the container runtime, once.
func (n *network) configure(pods string) error {
	if n.applied == pods {
		return nil
	}
	_, own, err := net.ParseCIDR(pods)
	if err != nil {
		return err
	}
	if err := masquerade(own, n.cluster); err != nil {
		return fmt.Errorf("masquerade: %w", err)
	}
	if err := writeCNI(own); err != nil {
		return err
	}
	n.applied = pods
	log.Printf("nodenet: pods of this node have %s", own)
	return nil
}

// route sends the pod range of another node to that node.
func route(node *corev1.Node) error {
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return err
	}
	for _, address := range node.Status.Addresses {
		gateway := net.ParseIP(address.Address)
		if address.Type != corev1.NodeInternalIP || gateway.To4() == nil {
			continue
		}
		if err := netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: gateway}); err != nil {
			return fmt.Errorf("route to %s by %s (%s): %w", pods, gateway, node.Name, err)
		}
	}
	return nil
}
