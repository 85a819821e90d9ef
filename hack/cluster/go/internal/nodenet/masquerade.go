package nodenet

import (
	"net"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Offsets of the addresses in an IPv4 header, in bytes.
const (
	sourceOffset      = 12
	destinationOffset = 16
	addressLength     = 4
)

// masquerade gives packets from own to outside of cluster the address of the node. It replaces the table in
// one transaction, so a second call changes nothing.
func masquerade(own, cluster *net.IPNet) error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	table := connection.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "nodenet"})
	connection.FlushTable(table)
	chain := connection.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	rule := addressIn(sourceOffset, own, expr.CmpOpEq)
	rule = append(rule, addressIn(destinationOffset, cluster, expr.CmpOpNeq)...)
	connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(rule, &expr.Masq{})})
	return connection.Flush()
}

// addressIn compares the address at offset, less its host part, with network.
func addressIn(offset uint32, network *net.IPNet, operator expr.CmpOp) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: addressLength},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: addressLength,
			Mask: network.Mask, Xor: make([]byte, addressLength),
		},
		&expr.Cmp{Op: operator, Register: 1, Data: network.IP.To4()},
	}
}
