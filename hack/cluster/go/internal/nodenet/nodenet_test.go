package nodenet

import (
	"encoding/json"
	"net"
	"testing"
)

func TestTheConfigurationGivesPodsAddressesOfTheNodesRange(t *testing.T) {
	_, pods, _ := net.ParseCIDR("10.244.3.0/24")
	content, err := cniConfig(pods)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Plugins []struct {
			Type   string
			IPMasq bool
			IPAM   struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal(content, &read); err != nil {
		t.Fatal(err)
	}
	if got := read.Plugins[0].IPAM.Ranges[0][0].Subnet; got != "10.244.3.0/24" {
		t.Errorf("subnet %q", got)
	}
	if read.Plugins[0].Type != "ptp" || read.Plugins[0].IPMasq || read.Plugins[1].Type != "portmap" {
		t.Errorf("plugins %+v", read.Plugins)
	}
}
