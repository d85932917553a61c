import io.fabric8.kubeapitest.KubeAPIServer;
import io.fabric8.kubeapitest.KubeAPIServerConfigBuilder;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * fabric8's kube-api-test on the programs that lie where it looks for them: DIRECTORY/k8s/VERSION-OS-ARCH has etcd, kube-apiserver and kubectl. Arguments: the
 * directory and the version.
 */
public final class PairTest {
  public static void main(String[] arguments) throws Exception {
    KubeAPIServer server = new KubeAPIServer(KubeAPIServerConfigBuilder.anAPIServerConfig()
        .withTestDir(arguments[0]).withApiServerVersion(arguments[1]).withOfflineMode(true).build());
    long began = System.nanoTime();
    server.start();
    System.out.println("ready after " + (System.nanoTime() - began) / 1_000_000 + " ms");
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(Config.fromKubeconfig(server.getKubeConfigYaml())).build()) {
      writesAreSeen(client);
    } finally {
      server.stop();
    }
    System.out.println("ok");
    System.exit(0);
  }

  private static void writesAreSeen(KubernetesClient client) throws Exception {
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    Watcher<ConfigMap> watcher = new Watcher<>() {
      @Override
      public void eventReceived(Action action, ConfigMap map) {
        seen.add(action + " " + map.getMetadata().getName());
      }

      @Override
      public void onClose(WatcherException why) {
      }
    };
    try (Watch watch = client.configMaps().inNamespace("default").withName("a").watch(watcher)) {
      ConfigMap made = new ConfigMapBuilder().withNewMetadata().withName("a").withNamespace("default").endMetadata().addToData("key", "1").build();
      client.resource(made).create();
      client.resource(made).delete();
      for (String want : new String[] {"ADDED a", "DELETED a"}) {
        String event = seen.poll(30, TimeUnit.SECONDS);
        if (!want.equals(event)) {
          throw new IllegalStateException("wanted " + want + ", not " + event);
        }
      }
    }
  }
}
