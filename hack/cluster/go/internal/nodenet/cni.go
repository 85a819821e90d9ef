package nodenet

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
)

const cniFolder = "/etc/cni/net.d"

// cniConfig is the plugin chain of one node: a veth pair for each pod, addresses from the node's range.
func cniConfig(pods *net.IPNet) ([]byte, error) {
	type object = map[string]any
	return json.MarshalIndent(object{
		"cniVersion": "0.3.1",
		"name":       "nodenet",
		"plugins": []object{
			{
				"type":   "ptp",
				"ipMasq": false,
				"mtu":    1500,
				"ipam": object{
					"type":    "host-local",
					"dataDir": "/run/cni-ipam-state",
					"routes":  []object{{"dst": "0.0.0.0/0"}},
					"ranges":  [][]object{{{"subnet": pods.String()}}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
}

// writeCNI replaces the configuration in one step: the runtime watches the folder.
func writeCNI(pods *net.IPNet) error {
	content, err := cniConfig(pods)
	if err != nil {
		return err
	}
	temporary := filepath.Join(cniFolder, ".nodenet.tmp")
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(cniFolder, "10-nodenet.conflist"))
}
